#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace google::protobuf {
class MessageLite;
}

namespace sectionflow {

/// Which fields of a message of Protocol Buffers are messages themselves.
struct WireMessage {
  struct Field {
    std::uint32_t number = 0;
    const WireMessage* message = nullptr;
  };
  std::span<const Field> messages{};
};

/// A tf.train.Example.
extern const WireMessage kExampleMessage;

/// Whether every length in a serialized message lies within what holds it, down to the messages that `message` tells
/// of. Fields that it does not have are passed over, groups (wire types 3 and 4) among them, each to its own end.
bool lengths_fit(std::string_view bytes, const WireMessage& message);

/// Parses bytes that are not trusted; false for what is no such message, and for more than 2^31 - 1 bytes. Where a
/// length is a lie nothing is taken for it: the parser of Protocol Buffers by itself takes up to 50 MB for a text in a
/// message whose own length reaches beyond the end. Source: protobuf 3, src/google/protobuf/parse_context.h
/// (ReadString, PushLimit); docs, "Encoding".
bool parse_message(google::protobuf::MessageLite& parsed, std::string_view bytes, const WireMessage& message);

}  // namespace sectionflow
