"""Probes that try to refute what the chapters claim in general."""

from tools.refute import arguments as arguments
from tools.refute import backends as backends
from tools.refute import operators as operators
from tools.refute import precision as precision
from tools.refute import sequences as sequences
from tools.refute import shipping as shipping
from tools.refute import start as start
from tools.refute.claims import CLAIMS as CLAIMS
