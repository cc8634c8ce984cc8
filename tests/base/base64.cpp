#include "base/base64.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace sectionflow {
namespace {

std::vector<std::byte> bytes_of(std::string_view text) {
  std::vector<std::byte> bytes;
  for (char letter : text) bytes.push_back(static_cast<std::byte>(letter));
  return bytes;
}

TEST(Base64, HasTheTextsOfItsStandard) {
  // RFC 4648, section 10.
  const std::pair<const char*, const char*> vectors[] = {{"", ""},
                                                         {"f", "Zg=="},
                                                         {"fo", "Zm8="},
                                                         {"foo", "Zm9v"},
                                                         {"foob", "Zm9vYg=="},
                                                         {"fooba", "Zm9vYmE="},
                                                         {"foobar", "Zm9vYmFy"}};
  for (const auto& [plain, text] : vectors) EXPECT_EQ(base64_text(bytes_of(plain)), text);
}

TEST(Base64, ReadsWhatItWrites) {
  std::mt19937 random(7);
  for (std::size_t size = 0; size < 200; ++size) {
    std::vector<std::byte> bytes(size), read(size);
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random() & 255);
    const std::string text = base64_text(bytes);
    ASSERT_EQ(base64_bytes(text), size);
    ASSERT_TRUE(read_base64(text, read));
    EXPECT_EQ(bytes, read);
  }
}

TEST(Base64, RefusesEverythingElse) {
  std::vector<std::byte> bytes(3);
  for (const char* text : {"Z", "Zg", "Zg=", "Zg==Zg", "Zm9v="}) EXPECT_EQ(base64_bytes(text), std::nullopt) << text;
  for (const char* text : {"Zm9\n", "Zm9-", "Zm 9", "====", "Z===", "=m9v"}) {
    const auto size = base64_bytes(text);
    ASSERT_TRUE(size.has_value());
    EXPECT_FALSE(read_base64(text, std::span(bytes).first(*size))) << text;
  }
  EXPECT_FALSE(read_base64("Zh==", std::span(bytes).first(1))) << "bits beyond the last byte";
  EXPECT_FALSE(read_base64("Zm9=", std::span(bytes).first(2))) << "bits beyond the last byte";
  EXPECT_FALSE(read_base64("Zm9v", std::span(bytes).first(2))) << "another number of bytes";
}

}  // namespace
}  // namespace sectionflow
