#include "examples/models/synthetic_batches.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include "base/error.h"
#include "base/random.h"

namespace sectionflow {
namespace {

// Addresses of randomness: one node per purpose; the step is the class, or that of the batch.
enum : std::uint32_t { kWaveNode, kLabelNode, kNoiseNode, kTokenNode, kMaskNode };

constexpr float kTwoPi = 2.0F * std::numbers::pi_v<float>;

/// sin(sum of frequency[d] * place[d] + phase) over pixels, in [-1, 1].
struct Wave {
  std::vector<float> frequencies;  // radians a pixel, one for each axis but the channels
  float phase = 0;
};

Wave wave_of(std::uint64_t seed, std::int64_t number, const std::vector<std::int64_t>& image) {
  Wave wave;
  const auto words = random_words({seed, kWaveNode, static_cast<std::uint32_t>(number)}, 0);
  for (std::size_t axis = 0; axis + 1 < image.size(); ++axis) {
    // From a half to three and a half turns over the image.
    const float turns = 0.5F + 3.0F * uniform_from_word(words[axis % 3]);
    wave.frequencies.push_back(kTwoPi * turns / static_cast<float>(image[axis]));
  }
  wave.phase = kTwoPi * uniform_from_word(words[3]);
  return wave;
}

std::int64_t product(const std::vector<std::int64_t>& dims) {
  return std::accumulate(dims.begin(), dims.end(), std::int64_t{1}, std::multiplies<>());
}

/// The wave's angle at pixel `index` of the image.
float angle_at(const Wave& wave, const std::vector<std::int64_t>& image, std::int64_t index) {
  float angle = wave.phase;
  for (std::size_t axis = wave.frequencies.size(); axis-- > 0;) {
    angle += wave.frequencies[axis] * static_cast<float>(index % image[axis]);
    index /= image[axis];
  }
  return angle;
}

/// Uniform numbers in [-1, 1), element by element.
class Noise {
 public:
  explicit Noise(const BatchAddress& address) : address_{address.seed, kNoiseNode, std::uint32_t(address.step)} {}
  float next() {
    if (used_ == words_.size()) {
      words_ = random_words(address_, block_++);
      used_ = 0;
    }
    return 2.0F * uniform_from_word(words_[used_++]) - 1.0F;
  }

 private:
  RandomAddress address_;
  std::uint64_t block_ = 0;
  std::array<std::uint32_t, 4> words_{};
  std::size_t used_ = 4;
};

Shape batched(std::int64_t batch, std::vector<std::int64_t> dims) {
  dims.insert(dims.begin(), batch);
  return Shape(dims);
}

void check(const std::vector<std::int64_t>& image, std::int64_t classes, const BatchAddress& address) {
  SF_CHECK(image.size() >= 2 && *std::min_element(image.begin(), image.end()) >= 1 && classes >= 1, ArgumentError,
           "synthetic images want {height, width, channels} of 1 at least and 1 class at least; got ", Shape(image),
           " and ", classes, " classes");
  SF_CHECK(address.batch >= 1, ArgumentError, "synthetic batch of ", address.batch, "; wanted >= 1");
}

std::uint32_t word_at(const BatchAddress& address, std::uint32_t node, std::int64_t index) {
  const auto words = random_words({address.seed, node, static_cast<std::uint32_t>(address.step)},
                                  static_cast<std::uint64_t>(index) / 4);
  return words[static_cast<std::size_t>(index % 4)];
}

}  // namespace

Batch synthetic_images(const std::vector<std::int64_t>& image, std::int64_t classes, const BatchAddress& address) {
  check(image, classes, address);
  Batch batch{HostTensor(Dtype::f32, batched(address.batch, image)), HostTensor(Dtype::i32, {address.batch})};
  const std::int64_t channels = image.back(), pixels = product(image) / channels;
  const auto labels = batch.labels.values<std::int32_t>();
  float* out = batch.images.values<float>().data();
  Noise noise(address);
  for (std::int32_t& label : labels) {
    const std::int64_t example = &label - labels.data();
    label = static_cast<std::int32_t>(word_at(address, kLabelNode, example) % static_cast<std::uint64_t>(classes));
    const Wave wave = wave_of(address.seed, label, image);
    for (std::int64_t pixel = 0; pixel < pixels; ++pixel) {
      const float angle = angle_at(wave, image, pixel);
      for (std::int64_t channel = 0; channel < channels; ++channel) {
        *out++ = 0.6F * std::sin(angle + static_cast<float>(channel * (label % 3 + 1))) + 0.4F * noise.next();
      }
    }
  }
  return batch;
}

Batch synthetic_pixels(const std::vector<std::int64_t>& image, std::int64_t classes, const BatchAddress& address) {
  check(image, classes, address);
  const std::vector<std::int64_t> space(image.begin(), image.end() - 1);
  Batch batch{HostTensor(Dtype::f32, batched(address.batch, image)),
              HostTensor(Dtype::i32, batched(address.batch, space))};
  const std::int64_t channels = image.back(), pixels = product(space);
  float* out = batch.images.values<float>().data();
  std::int32_t* label = batch.labels.values<std::int32_t>().data();
  Noise noise(address);
  for (std::int64_t example = 0; example < address.batch; ++example) {
    const Wave wave = wave_of(address.seed, address.step * address.batch + example, image);
    for (std::int64_t pixel = 0; pixel < pixels; ++pixel) {
      const float level = std::sin(angle_at(wave, image, pixel));
      const auto band = static_cast<std::int64_t>(0.5F * (level + 1.0F) * static_cast<float>(classes));
      *label++ = static_cast<std::int32_t>(std::clamp<std::int64_t>(band, 0, classes - 1));
      for (std::int64_t channel = 0; channel < channels; ++channel) *out++ = level + 0.2F * noise.next();
    }
  }
  return batch;
}

Batch synthetic_tokens(std::int64_t length, std::int64_t vocabulary, const BatchAddress& address) {
  SF_CHECK(length >= 1 && vocabulary >= 2 && address.batch >= 1, ArgumentError, "synthetic tokens: batch ",
           address.batch, ", length ", length, ", vocabulary ", vocabulary, "; wanted 1, 1 and 2 at least");
  Batch batch{HostTensor(Dtype::i32, {address.batch, length}), HostTensor(Dtype::i32, {address.batch, length})};
  std::int32_t* tokens = batch.images.values<std::int32_t>().data();
  std::int32_t* labels = batch.labels.values<std::int32_t>().data();
  for (std::int64_t example = 0; example < address.batch; ++example) {
    std::int64_t token = 0;
    for (std::int64_t place = 0; place <= length; ++place) {
      const std::uint32_t word = word_at(address, kTokenNode, example * (length + 1) + place);
      // One in eight is drawn at random, as the first is.
      const bool follows = place > 0 && word % 8 != 0;
      token = follows ? (3 * token + 1) % vocabulary : static_cast<std::int64_t>(word / 8) % vocabulary;
      if (place < length) tokens[example * length + place] = static_cast<std::int32_t>(token);
      if (place > 0) labels[example * length + place - 1] = static_cast<std::int32_t>(token);
    }
  }
  return batch;
}

Batch synthetic_masked_tokens(std::int64_t length, std::int64_t vocabulary, const BatchAddress& address) {
  SF_CHECK(vocabulary >= 3, ArgumentError, "synthetic masked tokens: vocabulary ", vocabulary,
           "; wanted 3 at least, one of them the mask");
  Batch batch = synthetic_tokens(length, vocabulary - 1, address);
  const auto tokens = batch.images.values<std::int32_t>(), labels = batch.labels.values<std::int32_t>();
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const auto index = static_cast<std::int64_t>(i);
    const bool is_masked = index % length == 0 || word_at(address, kMaskNode, index) % 7 == 0;
    labels[i] = is_masked ? tokens[i] : -100;
    if (is_masked) tokens[i] = static_cast<std::int32_t>(vocabulary - 1);
  }
  return batch;
}

}  // namespace sectionflow
