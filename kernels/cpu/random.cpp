#include "graph/ops/random.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/random.h"
#include "device/parallel.h"
#include "kernels/function_kernel.h"
#include "kernels/kernel_registry.h"

namespace sectionflow {
namespace {

// Four elements share a block of four random words: element e is made of block e / 4.
constexpr std::int64_t kBlock = 4;
using Four = std::array<float, kBlock>;

Four uniforms(const RandomAddress& address, std::uint64_t block) {
  const auto words = random_words(address, block);
  return {uniform_from_word(words[0]), uniform_from_word(words[1]), uniform_from_word(words[2]),
          uniform_from_word(words[3])};
}

Four normals(const RandomAddress& address, std::uint64_t block) {
  const auto words = random_words(address, block);
  const auto low = normals_from_words(words[0], words[1]);
  const auto high = normals_from_words(words[2], words[3]);
  return {low[0], low[1], high[0], high[1]};
}

/// Attempt k of block b reads block b + 2^48 k, which no tensor reaches, and an element takes the number of its own
/// place in the first attempt that has a fitting one there: still a function of address and element alone.
Four truncated_normals(const RandomAddress& address, std::uint64_t block) {
  constexpr float kLimit = 2;  // standard deviations
  constexpr int kAttemptBits = 48;
  Four result = normals(address, block);
  const auto fits = [](float x) { return std::abs(x) <= kLimit; };
  for (std::uint64_t attempt = 1; !std::all_of(result.begin(), result.end(), fits); ++attempt) {
    const Four drawn = normals(address, block + (attempt << kAttemptBits));
    for (std::size_t i = 0; i < result.size(); ++i) {
      if (!fits(result[i])) result[i] = drawn[i];
    }
  }
  return result;
}

/// y = offset + scale draw(block), block by block; a tensor's last block may be used in part.
template <Four (*draw)(const RandomAddress&, std::uint64_t)>
std::unique_ptr<Kernel> make_random_of(std::int64_t num_elements, float offset, float scale) {
  return function_kernel([=](const KernelArguments& arguments) {
    float* y = static_cast<float*>(arguments.outputs[0]);
    const RandomAddress address = arguments.random;
    constexpr std::int64_t kGrainBlocks = 256;
    parallel_for((num_elements + kBlock - 1) / kBlock, kGrainBlocks, [=](std::int64_t begin, std::int64_t end) {
      for (std::int64_t block = begin; block < end; ++block) {
        const Four numbers = draw(address, static_cast<std::uint64_t>(block));
        const std::int64_t count = std::min(kBlock, num_elements - block * kBlock);
        for (std::int64_t i = 0; i < count; ++i) y[block * kBlock + i] = offset + scale * numbers[i];
      }
    });
  });
}

std::unique_ptr<Kernel> make_random(const KernelRequest& request) {
  const auto& options = request.node.options<RandomOptions>();
  const std::int64_t num_elements = request.outputs[0].shape.num_elements();
  switch (options.distribution) {
    case Distribution::normal:
      return make_random_of<normals>(num_elements, options.a, options.b);
    case Distribution::truncated_normal:
      return make_random_of<truncated_normals>(num_elements, options.a, options.b);
    case Distribution::uniform:
      return make_random_of<uniforms>(num_elements, options.a, options.b - options.a);
  }
  return nullptr;
}

}  // namespace

void add_random_cpu_kernels(KernelRegistry& registry) {
  registry.add("random", make_random);
}

}  // namespace sectionflow
