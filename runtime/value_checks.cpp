#include "runtime/value_checks.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/error.h"
#include "device/parallel.h"
#include "graph/nodes/control.h"
#include "graph/op_def.h"

namespace sectionflow {
namespace {

/// The bits of a float of some width: an exponent of ones alone is NaN or infinity, and a fraction besides makes it
/// NaN.
template <class Bits>
struct FloatBits {
  Bits exponent, fraction;
};
constexpr FloatBits<std::uint16_t> kBf16Bits{0x7F80, 0x007F};
constexpr FloatBits<std::uint32_t> kF32Bits{0x7F800000, 0x007FFFFF};
constexpr FloatBits<std::uint64_t> kF64Bits{0x7FF0000000000000, 0x000FFFFFFFFFFFFF};

/// Searched one by one where one of them is refused.
constexpr std::int64_t kElementsAtOnce = 4096;

template <class Bits>
bool is_refused(Bits element, const FloatBits<Bits>& bits, const ValueChecks& checks) {
  if ((element & bits.exponent) != bits.exponent) return false;
  return (element & bits.fraction) != 0 ? checks.nan : checks.infinity;
}

/// Whether one of the elements has an exponent of ones: a one that is added to the exponent's last bit is carried into
/// the sign's place there, and nowhere else. In lanes of several vectors, so that the memory is all that is waited for.
template <class Bits>
bool has_special(const Bits* elements, std::int64_t count, const FloatBits<Bits>& bits) {
  constexpr auto kLanes = static_cast<std::int64_t>(256 / sizeof(Bits));
  const auto magnitude = static_cast<Bits>(bits.exponent | bits.fraction);
  const auto one = static_cast<Bits>(bits.fraction + 1);
  std::array<Bits, static_cast<std::size_t>(kLanes)> carried{};
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    const Bits* stretch = elements + i;
    for (std::size_t lane = 0; lane < carried.size(); ++lane) {
      carried[lane] = static_cast<Bits>(carried[lane] | static_cast<Bits>((stretch[lane] & magnitude) + one));
    }
  }
  Bits all = 0;
  for (const Bits lane : carried) all = static_cast<Bits>(all | lane);
  for (; i < count; ++i) all = static_cast<Bits>(all | static_cast<Bits>((elements[i] & magnitude) + one));
  return (all & ~magnitude) != 0;
}

/// The first element that is refused; `count` when there is none. All is looked through without a branch, so that the
/// compiler makes vectors of it, by the whole team; stretches of it where there is something to be found.
template <class Bits>
std::int64_t first_refused(const std::byte* bytes, std::int64_t count, const FloatBits<Bits>& bits,
                           const ValueChecks& checks) {
  std::atomic<std::int64_t> first{count};
  const auto look = [&](std::int64_t begin, std::int64_t end) {
    const auto* elements = reinterpret_cast<const Bits*>(bytes);
    if (!has_special(elements + begin, end - begin, bits)) return;
    for (std::int64_t stretch = begin; stretch < end; stretch += kElementsAtOnce) {
      const std::int64_t stretch_end = std::min(end, stretch + kElementsAtOnce);
      if (!has_special(elements + stretch, stretch_end - stretch, bits)) continue;
      for (std::int64_t i = stretch; i < stretch_end; ++i) {
        if (!is_refused(elements[i], bits, checks)) continue;
        std::int64_t known = first.load();
        while (i < known && !first.compare_exchange_weak(known, i)) {
        }
        return;
      }
    }
  };
  parallel_for(count, std::max(kParallelGrain, kElementsAtOnce), look);
  return first.load();
}

std::int64_t first_refused(Dtype dtype, const std::byte* bytes, std::int64_t count, const ValueChecks& checks) {
  if (dtype == Dtype::f64) return first_refused(bytes, count, kF64Bits, checks);
  return dtype == Dtype::bf16 ? first_refused(bytes, count, kBf16Bits, checks)
                              : first_refused(bytes, count, kF32Bits, checks);
}

/// A tensor of a step, on the host. Its type is its value's.
struct LookedAt {
  Dtype dtype = Dtype::f32;
  const Shape* declared = nullptr;
  std::int64_t count = 0;
  const std::byte* bytes = nullptr;
  std::vector<std::byte> copy{};
  int part = 0, parts = 1;  ///< which of so many equal parts of the value it is

  std::int64_t whole_count() const { return parts * count; }
};

/// Says of a tensor which part it is, where the operand is one.
void note_part(const Program& program, const Step& step, const Operand& operand, LookedAt& tensor) {
  const bool is_buffer_of_part = operand.kind == Operand::Kind::buffer &&
                                 program.schedule.buffers[static_cast<std::size_t>(operand.index)].parts > 1;
  if (!is_buffer_of_part && operand.bytes == 0) return;
  tensor.part = step.part;
  tensor.parts = step.parts;
}

/// Brings a tensor to where it can be read. The step is over.
LookedAt look_at(const TensorType& type, const void* place, std::size_t num_bytes, ExecutionContext& context) {
  LookedAt tensor{.dtype = type.dtype,
                  .declared = &type.shape,
                  .count = static_cast<std::int64_t>(num_bytes / dtype_bytes(type.dtype)),
                  .bytes = static_cast<const std::byte*>(place)};
  if (context.queue != nullptr) {
    tensor.copy.resize(num_bytes);
    if (num_bytes > 0) context.device.copy_to_host(tensor.copy.data(), place, num_bytes);
    tensor.bytes = tensor.copy.data();
  }
  return tensor;
}

/// Bytes of an operand; 0 where there is none.
std::size_t bytes_of(const Program& program, const Operand& operand, const TensorType& type) {
  if (operand.kind == Operand::Kind::buffer) {
    return operand_bytes(program.schedule, operand);
  }
  if (operand.kind == Operand::Kind::none) return 0;
  return operand.bytes > 0 ? operand.bytes : type.bytes();
}

/// The shape as it is known: an only unknown dimension follows from the number of elements.
std::vector<std::int64_t> dims_of(const LookedAt& tensor) {
  std::vector<std::int64_t> dims = tensor.declared->dims();
  std::int64_t known = 1;
  std::size_t unknown = dims.size();
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] != kDynamic) {
      known *= dims[i];
    } else if (unknown != dims.size()) {
      return {tensor.whole_count()};
    } else {
      unknown = i;
    }
  }
  if (unknown != dims.size() && known > 0) dims[unknown] = tensor.whole_count() / known;
  return dims;
}

std::string type_text(const LookedAt& tensor) {
  return text_of(dtype_name(tensor.dtype), Shape(dims_of(tensor)));
}

/// "[3,0,7]", or the number of the element where the shape is not known.
std::string element_text(const LookedAt& tensor, std::int64_t element) {
  const std::vector<std::int64_t> dims = dims_of(tensor);
  std::vector<std::int64_t> position(dims.size(), 0);
  element += tensor.part * tensor.count;
  for (std::size_t i = dims.size(); i-- > 0;) {
    position[i] = element % dims[i];
    element /= dims[i];
  }
  std::string text = "[";
  for (std::size_t i = 0; i < position.size(); ++i) text += text_of(i == 0 ? "" : ",", position[i]);
  return text + "]";
}

double number_at(const LookedAt& tensor, std::int64_t element) {
  const auto read = [&]<class Number>(Number number) {
    std::memcpy(&number, tensor.bytes + static_cast<std::size_t>(element) * sizeof(number), sizeof(number));
    return number;
  };
  switch (tensor.dtype) {
    case Dtype::f32:
      return read(float{});
    case Dtype::f64:
      return read(double{});
    case Dtype::bf16:
      return read(BFloat16{});
    case Dtype::i32:
      return read(std::int32_t{});
    case Dtype::i64:
      return static_cast<double>(read(std::int64_t{}));
    case Dtype::i8:
      return read(std::int8_t{});
    case Dtype::u8:
    case Dtype::boolean:
      return read(std::uint8_t{});
  }
  return 0;
}

/// "nan" for each of them, whatever its sign.
std::string number_text(double number) {
  return std::isnan(number) ? "nan" : text_of(number);
}

/// What an input looks like: "'labels' i32[32]: -1 to 12", "'x' f32[32,10]: element [3,1] is nan".
std::string input_text(Value value, const LookedAt& tensor) {
  const std::string text = text_of("'", value.name(), "' ", type_text(tensor), ": ");
  if (tensor.count == 0) return text + "empty";
  if (is_floating(tensor.dtype)) {
    const std::int64_t first = first_refused(tensor.dtype, tensor.bytes, tensor.count, {.nan = true, .infinity = true});
    if (first < tensor.count) {
      return text_of(text, "element ", element_text(tensor, first), " is ", number_text(number_at(tensor, first)));
    }
  }
  double least = number_at(tensor, 0), most = least;
  for (std::int64_t i = 1; i < tensor.count; ++i) {
    least = std::min(least, number_at(tensor, i));
    most = std::max(most, number_at(tensor, i));
  }
  return text_of(text, least, " to ", most);
}

std::string inputs_text(const Executable& program, const Step& step, const BoundStep& bound,
                        ExecutionContext& context) {
  std::string text;
  const Node& node = context.graph.node(step.node);
  for (std::size_t i = 0; i < step.inputs.size(); ++i) {
    const Value value = node.inputs()[i];
    const std::size_t num_bytes = bytes_of(program, step.inputs[i], value.type());
    if (bound.inputs[i] == nullptr || num_bytes == 0) continue;
    if (!text.empty()) text += "; ";
    const bool is_overwritten =
        std::find(bound.outputs.begin(), bound.outputs.end(), bound.inputs[i]) != bound.outputs.end() ||
        std::find(bound.updated.begin(), bound.updated.end(), bound.inputs[i]) != bound.updated.end();
    if (is_overwritten) {
      text += text_of("'", value.name(), "': overwritten by the result");
      continue;
    }
    LookedAt tensor = look_at(value.type(), bound.inputs[i], num_bytes, context);
    note_part(program, step, step.inputs[i], tensor);
    text += input_text(value, tensor);
  }
  return text;
}

/// A tensor that a step has written.
struct Result {
  Value value;
  const char* what;
};

/// Throws for a tensor that holds what is refused.
void check_tensor(const Executable& program, StepIndex index, const Result& result, const LookedAt& tensor,
                  ExecutionContext& context) {
  const std::int64_t first = first_refused(tensor.dtype, tensor.bytes, tensor.count, context.checks);
  if (first == tensor.count) return;
  const Step& step = program.schedule.steps[static_cast<std::size_t>(index)];
  const BoundStep& bound = program.bound[static_cast<std::size_t>(index)];
  const Node& node = context.graph.node(step.node);
  const Pass& pass = program.schedule.passes[static_cast<std::size_t>(step.pass)];
  throw ArgumentError(
      error_text_of(node.label(), ": element ", element_text(tensor, first), " of its ", result.what, " '",
                    result.value.name(), "' ", type_text(tensor), " is ", number_text(number_at(tensor, first)),
                    ", the first such in cycle ", context.cycle, ", ", pass.text(), Fact{"where", node.place()},
                    Fact{"inputs", inputs_text(program, step, bound, context)},
                    hint("look at its inputs: labels and indices outside of their range give NaN, as do large numbers "
                         "and logarithms or divisions of 0")),
      ErrorCode::value_not_finite);
}

/// Whether what an update has left in a variable is looked at. Where one kind alone is refused, a number of that kind
/// may be of the other kind in the first variable.
bool is_looked_at(const OpDef& op, std::size_t updated, const ValueChecks& checks) {
  const LeftByUpdate left = op.left_by_update.empty() ? LeftByUpdate::own : op.left_by_update[updated];
  return left == LeftByUpdate::own || (left == LeftByUpdate::seen && !(checks.nan && checks.infinity));
}

/// A whole number with all its digits.
std::string element_number_text(const LookedAt& tensor, std::int64_t element) {
  const double number = number_at(tensor, element);
  if (is_floating(tensor.dtype)) return number_text(number);
  if (tensor.dtype != Dtype::i64) return std::to_string(static_cast<int>(number));
  std::int64_t whole = 0;
  std::memcpy(&whole, tensor.bytes + static_cast<std::size_t>(element) * sizeof(whole), sizeof(whole));
  return std::to_string(whole);
}

/// "'a' f32[2,3] = 1, 2, 3, ..."
std::string first_values_text(Value value, const LookedAt& tensor, int first) {
  std::string text = text_of("'", value.name(), "' ", type_text(tensor), " =");
  const std::int64_t shown = std::min<std::int64_t>(first, tensor.count);
  for (std::int64_t i = 0; i < shown; ++i) {
    text += text_of(i == 0 ? " " : ", ", element_number_text(tensor, i));
  }
  return shown == tensor.count ? text : text + (shown == 0 ? " ..." : ", ...");
}

/// The first element of a tensor of booleans that is false; `count` where all are true.
std::int64_t first_false(const LookedAt& condition) {
  std::atomic<std::int64_t> first{condition.count};
  parallel_for(condition.count, std::max(kParallelGrain, kElementsAtOnce), [&](std::int64_t begin, std::int64_t end) {
    const void* found = std::memchr(condition.bytes + begin, 0, static_cast<std::size_t>(end - begin));
    if (found == nullptr) return;
    const std::int64_t place = static_cast<const std::byte*>(found) - condition.bytes;
    std::int64_t known = first.load();
    while (place < known && !first.compare_exchange_weak(known, place)) {
    }
  });
  return first.load();
}

}  // namespace

void check_assertion(const Executable& program, StepIndex index, ExecutionContext& context) {
  const Step& step = program.schedule.steps[static_cast<std::size_t>(index)];
  if (step.kind != StepKind::compute || step.replay) return;
  const Node& node = context.graph.node(step.node);
  const AssertionNodeOptions* assertion = assertion_of(node);
  if (assertion == nullptr) return;
  const BoundStep& bound = program.bound[static_cast<std::size_t>(index)];
  if (context.queue != nullptr) context.queue->queues().synchronize();
  const auto input = [&](std::size_t i) {
    const TensorType& type = node.inputs()[i].type();
    return look_at(type, bound.inputs[i], bytes_of(program, step.inputs[i], type), context);
  };
  const LookedAt condition = input(1);
  const std::int64_t first = first_false(condition);
  if (first == condition.count) return;
  std::string shown;
  for (std::size_t i = 2; i < step.inputs.size(); ++i) {
    shown += text_of(shown.empty() ? "" : "; ", first_values_text(node.inputs()[i], input(i), assertion->first));
  }
  const Pass& pass = program.schedule.passes[static_cast<std::size_t>(step.pass)];
  throw ArgumentError(
      error_text_of(node.label(), " does not hold", assertion->text.empty() ? "" : ": ", assertion->text, ": element ",
                    element_text(condition, first), " of its condition '", node.inputs()[1].name(), "' ",
                    type_text(condition), " is false in cycle ", context.cycle, ", ", pass.text(),
                    Fact{"where", node.place()}, Fact{"shown", shown},
                    hint("mend what it asks for, or show what its condition is computed from")),
      ErrorCode::failed_assertion);
}

void check_step_values(const Executable& program, StepIndex index, ExecutionContext& context) {
  const Step& step = program.schedule.steps[static_cast<std::size_t>(index)];
  if (step.kind != StepKind::compute) return;
  const BoundStep& bound = program.bound[static_cast<std::size_t>(index)];
  Node& node = context.graph.node(step.node);
  if (context.queue != nullptr) context.queue->queues().synchronize();
  const auto check = [&](Value value, const char* what, const Operand& operand, const void* place) {
    const TensorType& type = value.type();
    if (place == nullptr || !is_floating(type.dtype)) return;
    const std::size_t num_bytes = bytes_of(program, operand, type);
    if (num_bytes == 0) return;
    LookedAt tensor = look_at(type, place, num_bytes, context);
    note_part(program, step, operand, tensor);
    check_tensor(program, index, {value, what}, tensor, context);
  };
  for (std::size_t i = 0; i < step.outputs.size(); ++i) {
    check(node.output(static_cast<int>(i)), "result", step.outputs[i], bound.outputs[i]);
  }
  const std::vector<int>& updated = node.op().updated_inputs;
  for (std::size_t i = 0; i < step.updated.size(); ++i) {
    if (!is_looked_at(node.op(), i, context.checks)) continue;
    check(node.inputs()[static_cast<std::size_t>(updated[i])], "updated variable", step.updated[i], bound.updated[i]);
  }
}

}  // namespace sectionflow
