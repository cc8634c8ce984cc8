#pragma once

#include <cstdint>

#include "base/host_device.h"
#include "kernels/stored_element.h"
#include "kernels/vector_math.h"

// The elements of a step of an LSTM, stored as T: column j of a row, of `width` of them, of which sums, gates and their
// gradients have four rows of columns. What is written may lie over what is read of its shape.
namespace sectionflow::formulas {

/// output, cell' and gates of sums and cell, all [rows, width] or [rows, 4 width].
template <class T>
struct LstmStepOfRow {
  const T *sums, *cell;
  T *output, *cell_after, *gates;
  std::int64_t width;

  /// Moved to a row.
  SF_HOST_DEVICE LstmStepOfRow at(std::int64_t row) const {
    const std::int64_t one = row * width, four = 4 * one;
    return {sums + four, cell + one, output + one, cell_after + one, gates + four, width};
  }
  SF_HOST_DEVICE void operator()(std::int64_t j) const {
    const float i = vector_math::sigmoid(static_cast<float>(sums[j]));
    const float f = vector_math::sigmoid(static_cast<float>(sums[j + width]));
    const float g = vector_math::tanh(static_cast<float>(sums[j + 2 * width]));
    const float o = vector_math::sigmoid(static_cast<float>(sums[j + 3 * width]));
    const float c = f * static_cast<float>(cell[j]) + i * g;
    gates[j] = stored<T>(i);
    gates[j + width] = stored<T>(f);
    gates[j + 2 * width] = stored<T>(g);
    gates[j + 3 * width] = stored<T>(o);
    cell_after[j] = stored<T>(c);
    output[j] = stored<T>(o * vector_math::tanh(c));
  }
};

/// dsums and dcell of the gradients of output and cell'.
template <class T>
struct LstmStepGradOfRow {
  const T *doutput, *dcell_after, *gates, *cell, *cell_after;
  T *dsums, *dcell;
  std::int64_t width;

  /// Moved to a row.
  SF_HOST_DEVICE LstmStepGradOfRow at(std::int64_t row) const {
    const std::int64_t one = row * width, four = 4 * one;
    return {doutput + one,    dcell_after + one, gates + four, cell + one,
            cell_after + one, dsums + four,      dcell + one,  width};
  }
  SF_HOST_DEVICE void operator()(std::int64_t j) const {
    const auto i = static_cast<float>(gates[j]), f = static_cast<float>(gates[j + width]),
               g = static_cast<float>(gates[j + 2 * width]), o = static_cast<float>(gates[j + 3 * width]),
               dh = static_cast<float>(doutput[j]);
    const float t = vector_math::tanh(static_cast<float>(cell_after[j]));
    const float dc = static_cast<float>(dcell_after[j]) + dh * o * (1.0F - t * t);
    dsums[j] = stored<T>(dc * g * (i * (1.0F - i)));
    dsums[j + width] = stored<T>(dc * static_cast<float>(cell[j]) * (f * (1.0F - f)));
    dsums[j + 2 * width] = stored<T>(dc * i * (1.0F - g * g));
    dsums[j + 3 * width] = stored<T>(dh * t * (o * (1.0F - o)));
    dcell[j] = stored<T>(dc * f);
  }
};

/// The step of a launch: inputs sums, cell; outputs output, cell', gates.
template <class T, class Arguments>
LstmStepOfRow<T> lstm_step_of(const Arguments& arguments, std::int64_t width) {
  const auto in = [&](std::size_t k) { return static_cast<const T*>(arguments.inputs[k]); };
  const auto out = [&](std::size_t k) { return static_cast<T*>(arguments.outputs[k]); };
  return {in(0), in(1), out(0), out(1), out(2), width};
}
/// The same of its gradient: inputs doutput, dcell', gates, cell, cell'; outputs dsums, dcell.
template <class T, class Arguments>
LstmStepGradOfRow<T> lstm_step_grad_of(const Arguments& arguments, std::int64_t width) {
  const auto in = [&](std::size_t k) { return static_cast<const T*>(arguments.inputs[k]); };
  const auto out = [&](std::size_t k) { return static_cast<T*>(arguments.outputs[k]); };
  return {in(0), in(1), in(2), in(3), in(4), out(0), out(1), width};
}

}  // namespace sectionflow::formulas
