"""What ``angpn bench`` measures: an epoch, a whole fit of every method, and very many rows."""
