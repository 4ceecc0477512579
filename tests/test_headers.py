"""The headers compile for every processor and system that a compiler is at hand for."""

import shutil
import subprocess
from pathlib import Path

import pytest

CORE = Path(__file__).resolve().parents[1] / "sublinear" / "_core"
HEADERS = sorted(path.name for path in CORE.glob("*.h"))
COMPILERS = ("cc", "clang", "aarch64-linux-gnu-gcc", "x86_64-w64-mingw32-gcc")

# Cython gives members the names of attributes, which a system's headers must not take away.
NAMES = """
struct members { double far, near, small, hyper; int (*min)(int); int (*max)(int); };
double sum(const struct members *s) {
    return s->far + s->near + s->small + s->hyper + s->min(1) + s->max(1);
}
"""


@pytest.mark.skipif(not HEADERS, reason="the tests of an installed package come without headers")
@pytest.mark.parametrize("compiler", COMPILERS)
def test_headers_compile(compiler, tmp_path):
    if shutil.which(compiler) is None:
        pytest.skip(f"there is no {compiler}")
    source = tmp_path / "all.c"
    source.write_text("".join(f'#include "{name}"\n' for name in HEADERS) + NAMES)
    command = [compiler, "-std=gnu11", "-fsyntax-only", "-I", str(CORE), str(source)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
