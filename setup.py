"""
The two things about the build that pyproject.toml cannot say: which script describes the extension to cffi, and that
the wheel fits every Python from 3.11 on (cffi compiles to the limited API, but the wheel's name has to be told).
"""

import sysconfig

from setuptools import setup

if sysconfig.get_config_var("Py_GIL_DISABLED"):
    # Its headers refuse the limited API, with words that only those understand who know why.
    raise SystemExit(
        "pyddsi does not run on a free-threaded Python such as 3.13t: take the usual one, such as python3.13"
    )

setup(
    cffi_modules=["pyddsi/_build.py:ffi"],
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)
