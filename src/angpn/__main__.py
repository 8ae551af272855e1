"""``python -m angpn`` is the ``angpn`` command."""

from angpn.cli import main

if __name__ == "__main__":
    main()
