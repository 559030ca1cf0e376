"""One file per output format of ``check``: each renders a Report as text."""
