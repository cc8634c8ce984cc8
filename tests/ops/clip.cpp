#include "graph/ops/clip.h"
