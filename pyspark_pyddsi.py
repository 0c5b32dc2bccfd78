"""Spark imports every module whose name begins so, and takes its DefaultSource; one that raised would hide all others."""


def __getattr__(name: str) -> object:
    if name == "DefaultSource":
        try:
            from pyddsi.spark.source import CaptureSource  # noqa: PLC0415 - Spark may be looking for another
        except Exception as error:
            raise AttributeError(f"pyddsi.spark cannot be loaded: {error}") from error
        return CaptureSource
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
