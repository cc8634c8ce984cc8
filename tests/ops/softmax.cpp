#include "graph/ops/softmax.h"
