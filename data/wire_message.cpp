#include "data/wire_message.h"

#include <google/protobuf/message_lite.h>

#include <algorithm>
#include <limits>
#include <optional>

namespace sectionflow {
namespace {

enum WireType : std::uint32_t { kVarint = 0, kFixed64 = 1, kDelimited = 2, kGroup = 3, kGroupEnd = 4, kFixed32 = 5 };

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

}  // namespace

constinit const WireMessage kExampleMessage{kExampleFields};

bool lengths_fit(std::string_view bytes, const WireMessage& message) {
  while (!bytes.empty()) {
    const auto tag = take_varint(bytes);
    if (!tag) return false;
    const auto type = static_cast<WireType>(*tag & 7);
    std::uint64_t length = type == kFixed64 ? 8 : type == kFixed32 ? 4 : 0;
    if (type == kVarint || type == kDelimited) {
      const auto number = take_varint(bytes);
      if (!number) return false;
      if (type == kDelimited) length = *number;
    } else if (type > kFixed32) {
      return false;
    }
    if (length > bytes.size()) return false;
    const auto held = bytes.substr(0, static_cast<std::size_t>(length));
    const auto field = std::find_if(message.messages.begin(), message.messages.end(),
                                    [&](const WireMessage::Field& known) { return known.number == *tag >> 3; });
    if (type == kDelimited && field != message.messages.end() && !lengths_fit(held, *field->message)) return false;
    // What stands in a group stands between its two tags.
    bytes.remove_prefix(held.size());
  }
  return true;
}

bool parse_message(google::protobuf::MessageLite& parsed, std::string_view bytes, const WireMessage& message) {
  return bytes.size() <= std::size_t{std::numeric_limits<int>::max()} && lengths_fit(bytes, message) &&
         parsed.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()));
}

}  // namespace sectionflow
