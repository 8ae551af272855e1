"""``python -m angpn`` is the ``angpn`` command."""

from angpn.cli import main

main()
