"""Algorithm 1 on candidate lists, compiled: the same results as :mod:`angpn.anfp`, at the speed of the hardware.

``threads`` runs a loop over all rows on all cores; ``rows`` holds the loops, each over a range of rows; ``fused`` puts
them together as one differentiable operation.
"""
