"""`python -m torch_slowpoke`: the same as `slowpoke`."""

from torch_slowpoke.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
