"""Prints what a script can see of how it is run."""

import json
import os
import sys
import warnings

main = sys.modules["__main__"]
spec = main.__spec__
print(
    json.dumps(
        {
            "argv": sys.argv,
            "path": sys.path[0],
            "name": __name__,
            "file": __file__,
            "is_main": main.__dict__ is globals(),
            "spec": spec and [spec.name, spec.parent, spec.origin],
            "package": __package__,
            "loader": type(__loader__).__name__,
            "cached": __cached__ is None,
            "builtins": type(__builtins__).__name__,
            "doc": __doc__,
            "filename": (lambda: 0).__code__.co_filename,
            "filters": [str(each[:3]) for each in warnings.filters],
            "torch": "torch" in sys.modules,
            "numpy": "numpy" in sys.modules,
            "cwd": os.getcwd(),
        }
    )
)
