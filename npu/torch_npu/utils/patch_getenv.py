"""torch_npu logs each reading of the environment; the stand-in does not replace os.getenv."""
