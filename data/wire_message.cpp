#include "data/wire_message.h"

#include <google/protobuf/message_lite.h>

#include <algorithm>
#include <limits>
#include <optional>

namespace sectionflow {
namespace {

enum WireType : std::uint32_t { kVarint = 0, kFixed64 = 1, kDelimited = 2, kGroup = 3, kGroupEnd = 4, kFixed32 = 5 };

/// One in the other, as the parser of Protocol Buffers takes them.
constexpr int kMostGroups = 100;

constexpr WireMessage kPlain{};
constexpr WireMessage::Field kKinds[] = {{1, &kPlain}, {2, &kPlain}, {3, &kPlain}};
constexpr WireMessage kFeature{kKinds};
constexpr WireMessage::Field kEntryFields[] = {{2, &kFeature}};
constexpr WireMessage kEntry{kEntryFields};
constexpr WireMessage::Field kFeaturesFields[] = {{1, &kEntry}};
constexpr WireMessage kFeatures{kFeaturesFields};
constexpr WireMessage::Field kExampleFields[] = {{1, &kFeatures}};

/// Takes a number off the front: seven bits a byte, the lowest first.
std::optional<std::uint64_t> take_varint(std::string_view& bytes) {
  std::uint64_t number = 0;
  for (unsigned shift = 0; shift < 64 && !bytes.empty(); shift += 7) {
    const auto byte = static_cast<unsigned char>(bytes.front());
    bytes.remove_prefix(1);
    number |= std::uint64_t{byte & 0x7FU} << shift;
    if (byte < 0x80) return number;
  }
  return std::nullopt;
}

/// Takes the fields of a message off the front, or those of a group of that number with the tag that ends it; 0: of no
/// group. A group is no message that a WireMessage tells of: what stands in it is passed over, as of a field that is
/// not known, and its end is found by its number. Source: docs, "Encoding", of groups; parse_context.h (ParseGroup).
bool fields_fit(std::string_view& bytes, const WireMessage& message, std::uint64_t group, int groups_around) {
  while (!bytes.empty()) {
    const auto tag = take_varint(bytes);
    if (!tag || *tag >> 3 == 0 || *tag > std::numeric_limits<std::uint32_t>::max()) return false;
    const std::uint64_t number = *tag >> 3;
    const auto type = static_cast<WireType>(*tag & 7);
    if (type == kGroupEnd) return number == group;
    if (type > kFixed32) return false;
    if (type == kGroup) {
      if (groups_around == kMostGroups || !fields_fit(bytes, kPlain, number, groups_around + 1)) return false;
      continue;
    }
    std::uint64_t length = type == kFixed64 ? 8 : type == kFixed32 ? 4 : 0;
    if (type == kVarint || type == kDelimited) {
      const auto value = take_varint(bytes);
      if (!value) return false;
      if (type == kDelimited) length = *value;
    }
    if (length > bytes.size()) return false;
    std::string_view held = bytes.substr(0, static_cast<std::size_t>(length));
    bytes.remove_prefix(held.size());
    const auto field = std::find_if(message.messages.begin(), message.messages.end(),
                                    [&](const WireMessage::Field& known) { return known.number == number; });
    if (type != kDelimited || field == message.messages.end()) continue;
    if (!fields_fit(held, *field->message, 0, groups_around)) return false;
  }
  return group == 0;
}

}  // namespace

constinit const WireMessage kExampleMessage{kExampleFields};

bool lengths_fit(std::string_view bytes, const WireMessage& message) {
  return fields_fit(bytes, message, 0, 0);
}

bool parse_message(google::protobuf::MessageLite& parsed, std::string_view bytes, const WireMessage& message) {
  return bytes.size() <= std::size_t{std::numeric_limits<int>::max()} && lengths_fit(bytes, message) &&
         parsed.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()));
}

}  // namespace sectionflow
