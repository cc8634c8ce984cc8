#include <gtest/gtest.h>
#include <unistd.h>

#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"
#include "tests/runtime/disk_case.h"
#include "tests/support/temporary_folder.h"

namespace sectionflow {
namespace {

// What is done to the swap file behind the store is found before anybody uses the bytes.

class DiskDamage : public EveryWay {};
INSTANTIATE_TEST_SUITE_P(EveryWay, DiskDamage, every_way(), way_name);

/// A store of blocks side by side, which trials damage behind its back.
struct Damaged {
  static constexpr int kBlocks = 8;
  static constexpr std::size_t kBlock = 5120;  // not whole pages
  static constexpr std::size_t kStride = 2 * kPageBytes;
  explicit Damaged(DiskStoreOptions options) : store(std::move(options)) {}

  static std::size_t offset(int block) { return static_cast<std::size_t>(block) * kStride; }
  void write(int block, std::uint64_t cycle) {
    const Bytes bytes = random_bytes(kBlock, 1000 * cycle + static_cast<std::uint64_t>(block));
    store.write(block, offset(block), bytes, label(block, cycle));
  }
  void write_all(std::uint64_t cycle) {
    for (int i = 0; i < kBlocks; ++i) write(i, cycle);
  }
  static BlockLabel label(int block, std::uint64_t cycle) {
    return {static_cast<std::uint64_t>(block), block / 2, cycle};
  }
  Bytes raw(int block) const {
    Bytes bytes(kBlock);
    EXPECT_EQ(pread(descriptor(), bytes.data(), kBlock, static_cast<off_t>(offset(block))), ssize_t{kBlock});
    return bytes;
  }
  void put_raw(int block, const Bytes& bytes) const {
    EXPECT_EQ(pwrite(descriptor(), bytes.data(), kBlock, static_cast<off_t>(offset(block))), ssize_t{kBlock});
  }
  int descriptor() const { return store.file_descriptor_for_tests(); }

  /// Whether reading the block is refused as damage, in words that lead to it.
  bool is_refused(int block, std::uint64_t cycle) {
    Bytes got(kBlock);
    try {
      store.read(block, offset(block), got, label(block, cycle));
    } catch (const DataError& error) {
      const std::string text = error.what();
      EXPECT_EQ(text.find("SF-E401 DataError: disk: "), 0u) << text;
      for (const std::string& part : {text_of("tensor 'layer_", block, "' of section ", block / 2),
                                      text_of("at byte ", offset(block), " of the swap file")}) {
        EXPECT_NE(text.find(part), std::string::npos) << part << " is not in: " << text;
      }
      return true;
    }
    EXPECT_EQ(got, random_bytes(kBlock, 1000 * cycle + static_cast<std::uint64_t>(block)));
    return false;
  }

  DiskStore store;
};

TEST_P(DiskDamage, DamageIsFoundInAThousandTrials) {
  Damaged d(options(Damaged::kBlocks * Damaged::kStride, Damaged::kBlocks));
  std::mt19937 random(11);
  int num_trials = 0;
  d.write_all(0);
  std::vector<Bytes> old;
  for (std::uint64_t cycle = 1; num_trials < 1000; ++cycle) {
    old.clear();
    for (int i = 0; i < Damaged::kBlocks; ++i) old.push_back(d.raw(i));
    d.write_all(cycle);
    for (int i = 0; i < Damaged::kBlocks; ++i) ASSERT_FALSE(d.is_refused(i, cycle));
    for (int kind = 0; kind < 5; ++kind, ++num_trials) {
      const int a = static_cast<int>(random() % Damaged::kBlocks);
      const int b = (a + 1 + static_cast<int>(random() % (Damaged::kBlocks - 1))) % Damaged::kBlocks;
      const Bytes bytes_a = d.raw(a), bytes_b = d.raw(b);
      if (kind == 0) {  // one bit
        Bytes flipped = bytes_a;
        flipped[random() % Damaged::kBlock] ^= static_cast<std::byte>(1U << random() % 8);
        d.put_raw(a, flipped);
        ASSERT_TRUE(d.is_refused(a, cycle));
        ASSERT_FALSE(d.is_refused(b, cycle));
      } else if (kind == 1) {  // two blocks change places
        d.put_raw(a, bytes_b);
        d.put_raw(b, bytes_a);
        ASSERT_TRUE(d.is_refused(a, cycle));
        ASSERT_TRUE(d.is_refused(b, cycle));
      } else if (kind == 2) {  // a write of this cycle never came to the disk
        d.put_raw(a, old[static_cast<std::size_t>(a)]);
        ASSERT_TRUE(d.is_refused(a, cycle));
      } else if (kind == 3) {  // the end of the file is gone
        ASSERT_EQ(ftruncate(d.descriptor(), static_cast<off_t>(Damaged::offset(a) + random() % Damaged::kBlock)), 0);
        for (int i = 0; i < Damaged::kBlocks; ++i) ASSERT_EQ(d.is_refused(i, cycle), i >= a);
      } else {  // the caller means another cycle, or another tensor
        Bytes got(Damaged::kBlock);
        ASSERT_TRUE(d.is_refused(a, cycle + 1));
        ASSERT_TRUE(d.is_refused(a, cycle - 1));
        ASSERT_THROW(d.store.read(a, Damaged::offset(a), got, Damaged::label(b, cycle)), DataError);
      }
      if (kind == 3) {
        d.write_all(cycle);
      } else {
        d.write(a, cycle);
        d.write(b, cycle);
      }
    }
  }
  EXPECT_GE(num_trials, 1000);
}

TEST(DiskStore, EqualBytesUnderAnotherLabelAreRefused) {
  const TemporaryFolder folder;
  DiskStore store(options_in(folder, 1_MiB));
  const Bytes bytes(1000);
  Bytes got(1000);
  store.write(0, 0, bytes, {.tensor = 1, .section = 0, .cycle = 7});
  store.read(0, 0, got, {.tensor = 1, .section = 0, .cycle = 7});
  for (const BlockLabel& other : {BlockLabel{1, 0, 8}, BlockLabel{1, 1, 7}, BlockLabel{2, 0, 7}}) {
    EXPECT_THROW(store.read(0, 0, got, other), DataError);
  }
  const std::string text = error_text<DataError>([&] { store.read(0, 0, got, {1, 0, 8}); });
  EXPECT_NE(text.find("the bytes are those of tensor 'layer_1' of section 0 in cycle 7"), std::string::npos) << text;
}

}  // namespace
}  // namespace sectionflow
