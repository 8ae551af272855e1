"""Measurements of ``angpn bench``: an epoch, a fit of every method, and a fit of a million rows."""
