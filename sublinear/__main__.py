"""python -m sublinear compare | fit | predict"""

from sublinear.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
