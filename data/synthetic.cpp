#include "data/synthetic.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "base/checked_arithmetic.h"
#include "base/random.h"

namespace sectionflow {
namespace {

constexpr int kMaxShift = 3;
constexpr int kCell = 4;  // pixels between the knots of a pattern

// Addresses of randomness: one node per purpose; the step is the class or the sample.
enum : std::uint32_t { kPatternNode, kTrainNode, kTestNode };

/// The words of one address, one after another.
class WordStream {
 public:
  explicit WordStream(const RandomAddress& address) : address_(address) {}

  std::uint32_t next() {
    if (used_ == words_.size()) {
      words_ = random_words(address_, block_++);
      used_ = 0;
    }
    return words_[used_++];
  }
  /// Uniform in [0, bound).
  int next_below(int bound) {
    return static_cast<int>(std::uint64_t{next()} * static_cast<std::uint64_t>(bound) >> 32);
  }

 private:
  RandomAddress address_;
  std::uint64_t block_ = 0;
  std::array<std::uint32_t, 4> words_{};
  std::size_t used_ = 4;
};

struct Pattern {
  std::int64_t height, width;  // of the image and a margin of kMaxShift on each side
  std::vector<int> levels;     // [height, width], each in [-128, 127]
};

/// Random knots every kCell pixels, bilinear between them.
Pattern make_pattern(const SyntheticOptions& options, int label) {
  Pattern pattern{options.height + 2 * kMaxShift, options.width + 2 * kMaxShift, {}};
  const std::int64_t knot_rows = pattern.height / kCell + 2, knot_columns = pattern.width / kCell + 2;
  WordStream words({options.seed, kPatternNode, static_cast<std::uint32_t>(label)});
  std::vector<int> knots(static_cast<std::size_t>(checked_multiply(knot_rows, knot_columns)));
  for (int& knot : knots) knot = words.next_below(256) - 128;

  for (std::int64_t y = 0; y < pattern.height; ++y) {
    for (std::int64_t x = 0; x < pattern.width; ++x) {
      const int* knot = knots.data() + y / kCell * knot_columns + x / kCell;
      const int down = static_cast<int>(y % kCell), right = static_cast<int>(x % kCell);
      const int upper = knot[0] * (kCell - right) + knot[1] * right;
      const int lower = knot[knot_columns] * (kCell - right) + knot[knot_columns + 1] * right;
      pattern.levels.push_back((upper * (kCell - down) + lower * down) / (kCell * kCell));
    }
  }
  return pattern;
}

void write_sample(const SyntheticOptions& options, const Pattern& pattern, const RandomAddress& address,
                  std::uint8_t* image) {
  WordStream words(address);
  const int shift_y = words.next_below(2 * kMaxShift + 1), shift_x = words.next_below(2 * kMaxShift + 1);
  const int contrast = 48 + words.next_below(80);  // of 128
  for (std::int64_t y = 0; y < options.height; ++y) {
    const int* levels = pattern.levels.data() + (y + shift_y) * pattern.width + shift_x;
    for (std::int64_t x = 0; x < options.width; ++x) {
      // The sum of a word's four bytes is close to normal; 5/16 of it deviate by 46 levels.
      const std::uint32_t word = words.next();
      const int sum = static_cast<int>((word & 255) + (word >> 8 & 255) + (word >> 16 & 255) + (word >> 24));
      const int noise = (sum - 510) * 5 / 16;
      const int level = 128 + levels[x] * contrast / 128 + noise;
      image[y * options.width + x] = static_cast<std::uint8_t>(std::clamp(level, 0, 255));
    }
  }
}

LabeledImages make_part(const SyntheticOptions& options, const std::vector<Pattern>& patterns, std::int64_t num_images,
                        std::uint32_t node, std::string name) {
  LabeledImages part;
  part.images = HostTensor(Dtype::u8, {num_images, options.height, options.width, 1});
  part.labels = HostTensor(Dtype::i32, {num_images});
  part.num_classes = options.num_classes;
  part.name = std::move(name);
  const auto labels = part.labels.values<std::int32_t>();
  std::uint8_t* image = part.images.values<std::uint8_t>().data();
  for (std::int64_t i = 0; i < num_images; ++i) {
    const auto label = static_cast<std::int32_t>(i % options.num_classes);
    labels[static_cast<std::size_t>(i)] = label;
    write_sample(options, patterns[static_cast<std::size_t>(label)],
                 {options.seed, node, static_cast<std::uint32_t>(i)}, image);
    image += options.height * options.width;
  }
  return part;
}

}  // namespace

TrainTest synthetic_mnist(const SyntheticOptions& options) {
  const std::int64_t least = std::min(
      {options.train_size, options.test_size, options.height, options.width, std::int64_t{options.num_classes}});
  const std::int64_t most = std::max({options.train_size, options.test_size, options.height, options.width});
  SF_CHECK(least >= 1 && most <= std::numeric_limits<std::int32_t>::max(), ArgumentError,
           "synthetic_mnist got train_size ", options.train_size, ", test_size ", options.test_size, ", images of ",
           options.height, " x ", options.width, " and ", options.num_classes,
           " classes; wanted each from 1 to 2^31 - 1");
  std::vector<Pattern> patterns;
  for (int label = 0; label < options.num_classes; ++label) patterns.push_back(make_pattern(options, label));
  TrainTest data;
  data.train = make_part(options, patterns, options.train_size, kTrainNode, "synthetic train");
  data.test = make_part(options, patterns, options.test_size, kTestNode, "synthetic test");
  return data;
}

}  // namespace sectionflow
