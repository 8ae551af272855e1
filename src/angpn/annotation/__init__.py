"""``angpn annotate``: label rows in the browser while a model learns.

actions (what a person may do) -> log (appended and on the disk before the answer) -> state (what the log says) ->
learner (a process of its own that fits the model) -> queue (which rows come next) and estimate (how accurate it is) ->
session (all of these in one place) -> views (as JSON) -> server (routes) -> command (a terminal) or notebook (Python).
"""
