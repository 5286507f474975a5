"""`python old_kernel.py PROGRAM ...`: runs it as on a kernel with neither Landlock nor new namespaces."""

import errno
import os
import sys

from onnxlab_class.sandbox.seccomp import Rule, install
from onnxlab_class.sandbox.users import no_new_privileges

if __name__ == "__main__":
    no_new_privileges()
    install([Rule(((444, 444),), errno.ENOSYS), Rule(((272, 97),))])  # landlock_create_ruleset, unshare
    os.execv(sys.argv[1], sys.argv[1:])
