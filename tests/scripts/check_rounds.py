"""What comparisons in rounds make of their samples: check_rounds.py bench/peers"""

import sys

sys.path.insert(0, sys.argv[1])
sys.dont_write_bytecode = True
from rounds import quartiles  # pylint: disable=wrong-import-position,import-error

assert quartiles([2.5]) == [2.5, 2.5, 2.5], quartiles([2.5])
assert quartiles([1, 2, 3, 4, 5]) == [2, 3, 4], quartiles([1, 2, 3, 4, 5])
