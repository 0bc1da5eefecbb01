"""The compiled kernel, which is optional; all else about the distribution is in pyproject.toml."""

from setuptools import Extension, setup

LIMITED_API = "0x030B0000"  # one build for every Python from 3.11 on

setup(
    ext_modules=[
        Extension(
            "engine.store.kernel.compiled",
            ["engine/store/kernel/compiled.c"],
            define_macros=[("Py_LIMITED_API", LIMITED_API)],
            extra_compile_args=["-O2"],
            py_limited_api=True,
            optional=True,  # without a compiler or Python's headers the pure twin runs
        )
    ],
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)
