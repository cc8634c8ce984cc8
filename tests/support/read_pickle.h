#pragma once

#include <bit>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

namespace sectionflow {

/// The value of a pickle of the opcodes that are listed here, tuples as lists. Throws: std::runtime_error for others.
inline nlohmann::json read_pickle(const std::string& bytes) {
  using nlohmann::json;
  std::vector<json> stack;
  std::vector<std::size_t> marks;
  std::size_t at = 0;
  const auto take = [&](std::size_t count) {
    if (bytes.size() - at < count) throw std::runtime_error("pickle ends too soon");
    at += count;
    return bytes.substr(at - count, count);
  };
  const auto number = [](const std::string& text) {
    std::uint64_t value = 0;
    for (auto byte = text.rbegin(); byte != text.rend(); ++byte) value = value << 8 | static_cast<std::uint8_t>(*byte);
    return value;
  };
  const auto marked = [&] {
    std::vector<json> items(stack.begin() + static_cast<std::ptrdiff_t>(marks.back()), stack.end());
    stack.resize(marks.back());
    marks.pop_back();
    return items;
  };
  if (take(2) != "\x80\x02") throw std::runtime_error("no pickle of protocol 2");
  while (true) {
    switch (const char opcode = take(1)[0]; opcode) {
      case '}':
        stack.push_back(json::object());
        break;
      case ']':
        stack.push_back(json::array());
        break;
      case '(':
        marks.push_back(stack.size());
        break;
      case 'X':
        stack.emplace_back(take(number(take(4))));
        break;
      case '\x8a':
        if (take(1) != "\x08") throw std::runtime_error("an integer of another size");
        stack.emplace_back(static_cast<std::int64_t>(number(take(8))));
        break;
      case 'G': {
        const std::string big_endian = take(8);
        stack.emplace_back(std::bit_cast<double>(number({big_endian.rbegin(), big_endian.rend()})));
        break;
      }
      case '\x88':
      case '\x89':
        stack.emplace_back(opcode == '\x88');
        break;
      case 'N':
        stack.emplace_back(nullptr);
        break;
      case 't':
        stack.emplace_back(marked());
        break;
      case 'e':
        for (json& item : marked()) stack.back().push_back(std::move(item));
        break;
      case 'u': {
        const std::vector<json> items = marked();
        for (std::size_t i = 0; i + 1 < items.size(); i += 2) stack.back()[items[i].get<std::string>()] = items[i + 1];
        break;
      }
      case '.':
        if (stack.size() != 1 || !marks.empty() || at != bytes.size()) throw std::runtime_error("an unfinished pickle");
        return stack[0];
      default:
        throw std::runtime_error("pickle: opcode " + std::to_string(opcode));
    }
  }
}

}  // namespace sectionflow
