"""Measurements of ``angpn bench``: an epoch, fits beside other methods, and a fit of a million rows."""
