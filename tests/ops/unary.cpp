#include "graph/ops/unary.h"
