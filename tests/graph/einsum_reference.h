#pragma once

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "op_case/op_case.h"
#include "tests/support/positions.h"

// What tests of einsum share.
namespace sectionflow::einsum_case {

using testing_support::Position;
using Doubles = std::vector<double>;

/// Whole numbers of the type, so small that f32 adds products of them without rounding.
struct Operand {
  Shape shape;
  Doubles values;
};

/// A text as indices, one an axis: letters, and digits for the axes of "...", 0 the last of them. `text` has "->".
struct Spelled {
  std::vector<std::string> operands;
  std::string result;
};
inline Spelled spelled(std::string text, const std::vector<Operand>& operands) {
  text.erase(std::remove_if(text.begin(), text.end(), [](unsigned char c) { return std::isspace(c) != 0; }),
             text.end());
  const std::string::size_type arrow = text.find("->");
  Spelled all{{""}, text.substr(arrow + 2)};
  for (const char c : text.substr(0, arrow)) {
    if (c == ',') {
      all.operands.emplace_back();
    } else {
      all.operands.back() += c;
    }
  }
  int most = 0;
  const auto replace = [](std::string& term, int count) {
    std::string digits;
    for (int i = count; i-- > 0;) digits += static_cast<char>('0' + i);
    const std::string::size_type at = term.find("...");
    if (at != std::string::npos) term.replace(at, 3, digits);
  };
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (all.operands[i].find("...") == std::string::npos) continue;
    const int count = operands[i].shape.rank() - static_cast<int>(all.operands[i].size()) + 3;
    most = std::max(most, count);
    replace(all.operands[i], count);
  }
  replace(all.result, most);
  return all;
}

/// The size of each index: the largest that an operand has, since a 1 of "..." is repeated.
inline std::map<char, std::int64_t> sizes_of(const Spelled& text, const std::vector<Operand>& operands) {
  std::map<char, std::int64_t> sizes;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    for (std::size_t axis = 0; axis < text.operands[i].size(); ++axis) {
      const std::int64_t size = operands[i].shape[static_cast<int>(axis)];
      std::int64_t& known = sizes.emplace(text.operands[i][axis], size).first->second;
      if (known == 1) known = size;
    }
  }
  return sizes;
}

inline Shape shape_of(const std::string& indices, const std::map<char, std::int64_t>& sizes) {
  std::vector<std::int64_t> dims;
  for (const char index : indices) dims.push_back(sizes.at(index));
  return Shape(std::move(dims));
}

/// Calls `visit(element of the result, elements of the operands)` for every value of all indices.
inline void for_each_term(const Spelled& text, const std::vector<Operand>& operands,
                          const std::function<void(std::size_t, const std::vector<std::size_t>&)>& visit) {
  const std::map<char, std::int64_t> sizes = sizes_of(text, operands);
  std::string all;
  for (const auto& [index, size] : sizes) all += index;
  const Shape whole = shape_of(all, sizes);
  for (std::int64_t i = 0; i < whole.num_elements(); ++i) {
    const Position at = testing_support::position_of(i, whole);
    const auto element = [&](const std::string& indices, const Shape& shape) {
      Position place;
      for (std::size_t axis = 0; axis < indices.size(); ++axis) {
        const std::int64_t here = at[all.find(indices[axis])];
        place.push_back(shape[static_cast<int>(axis)] == 1 ? 0 : here);
      }
      return testing_support::number_of(place, shape);
    };
    std::vector<std::size_t> elements;
    for (std::size_t k = 0; k < operands.size(); ++k) {
      elements.push_back(element(text.operands[k], operands[k].shape));
    }
    visit(element(text.result, shape_of(text.result, sizes)), elements);
  }
}

/// The result of a text with "->", by a loop over all indices.
inline Doubles einsum_in_double(const std::string& text, const std::vector<Operand>& operands) {
  const Spelled indices = spelled(text, operands);
  const Shape shape = shape_of(indices.result, sizes_of(indices, operands));
  Doubles y(static_cast<std::size_t>(shape.num_elements()));
  for_each_term(indices, operands, [&](std::size_t to, const std::vector<std::size_t>& from) {
    double product = 1;
    for (std::size_t k = 0; k < operands.size(); ++k) product *= operands[k].values[from[k]];
    y[to] += product;
  });
  return y;
}

/// The gradient of sum(y r) to operand `wanted`.
inline Doubles gradient_in_double(const std::string& text, const std::vector<Operand>& operands, const Doubles& r,
                                  std::size_t wanted) {
  Doubles gradient(operands[wanted].values.size());
  for_each_term(spelled(text, operands), operands, [&](std::size_t to, const std::vector<std::size_t>& from) {
    double product = r[to];
    for (std::size_t k = 0; k < operands.size(); ++k) product *= k == wanted ? 1 : operands[k].values[from[k]];
    gradient[from[wanted]] += product;
  });
  return gradient;
}

/// The seed of a random test: what the environment says, or its own.
inline std::uint32_t seed_or(std::uint32_t own) {
  const char* given = std::getenv("SECTIONFLOW_TEST_SEED");
  return given == nullptr ? own : static_cast<std::uint32_t>(std::atoll(given));
}

}  // namespace sectionflow::einsum_case
