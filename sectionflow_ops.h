#pragma once

// Everything that users of SectionFlow call, beside sectionflow.h, to add operations of their own.

#include "autodiff/compose.h"
#include "autodiff/gradient_registry.h"
#include "base/export.h"
#include "base/random.h"
#include "extend/register_family.h"
#include "graph/op_def.h"
#include "graph/op_registry.h"
#include "graph/option_fields.h"
#include "graph/shape_rules.h"
#include "kernels/function_kernel.h"
#include "kernels/kernel.h"
#include "kernels/kernel_registry.h"
#include "kernels/map_elements.h"
#include "kernels/vector_math.h"

/// Operations from outside: register_family adds them, and from then on they are like the library's own.
namespace SF_API sectionflow {}
