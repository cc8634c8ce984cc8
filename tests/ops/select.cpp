#include "graph/ops/select.h"
