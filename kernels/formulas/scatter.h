#pragma once

#include "base/host_device.h"
#include "kernels/formulas/reduce.h"

/// How rows that are named by the same index become one, on every device.
namespace sectionflow::formulas {

/// Their sum in f32.
struct AddRows {
  SF_HOST_DEVICE static float combine(float a, float b) { return a + b; }
};
/// The largest of each column; a NaN counts as largest.
using LargestOfRows = MaxReducer;

}  // namespace sectionflow::formulas
