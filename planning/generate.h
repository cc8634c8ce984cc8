#pragma once

#include <cstdint>

#include "planning/instance.h"

namespace sectionflow::planning {

// Instances of graphs as they occur, and of random ones. The same arguments give the same instance on every machine.
// All throw ArgumentError for sizes that are not positive, and for more than 200,000 operations or 2^53 bytes.

/// What a roofline says of a device: an operation takes the longer of its arithmetic and its memory traffic.
struct Roofline {
  double flops = 600e12;            ///< per second
  double bytes_per_second = 4e12;   ///< of device memory
  double seconds_to_launch = 2e-6;  ///< that each operation takes besides
};

struct GptSize {
  int layers = 12;
  std::int64_t tokens = 8192;    ///< in a batch
  std::int64_t sequence = 4096;  ///< tokens that attend to each other
  std::int64_t hidden = 4096;
  int bytes_per_element = 2;
};

/// A training step of a transformer of decoder layers, its arithmetic and bytes by formulas; 24 operations a layer
/// and 4. Weight gradients are added up in place (size 0), parameters are no part of it. Sizes in units of one
/// activation X = tokens x hidden elements, arithmetic for T tokens, a sequence of s, and h hidden features:
///
///     embedding X                                          (reads as much as it writes)
///     a layer, of x:  ln1 X (x); qkv 3X (ln1), 6Th^2; attention X (qkv), 2Tsh; projection X (attention), 2Th^2;
///                     add1 X (x, projection); ln2 X (add1); fc1 4X (ln2), 8Th^2; gelu 4X (fc1); fc2 X (gelu), 8Th^2;
///                     add2 X (add1, fc2), the next layer's x
///     norm X (x); head X (norm), 48Th^2: logits in pieces, the loss and both gradients; norm_grad X (x, head)
///     of the gradient d, from the last layer on:
///                     drop2_grad X (d); gelu_d 4X (drop2_grad), 8Th^2; fc2_dw 0 (gelu, drop2_grad), 8Th^2;
///                     gelu_grad 4X (fc1, gelu_d); ln2_d X (gelu_grad), 8Th^2; fc1_dw 0 (ln2, gelu_grad), 8Th^2;
///                     ln2_grad X (add1, ln2_d, d); drop1_grad X (ln2_grad); attention_d X (drop1_grad), 2Th^2;
///                     projection_dw 0 (attention, drop1_grad), 2Th^2;
///                     attention_grad 3X (qkv, attention, attention_d), 5Tsh; ln1_d X (attention_grad), 6Th^2;
///                     qkv_dw 0 (ln1, attention_grad), 6Th^2; ln1_grad X (x, ln1_d, ln2_grad), the next d
Instance generate_gpt(const GptSize& size = {}, const Roofline& device = {});

/// Layers of 1 to 12 operations until there are enough. Each reads 1 to 3 of the layer before and, one time in four,
/// one of an earlier layer. Times and sizes are whole numbers from 1 to 100.
Instance generate_layered(int operations, std::uint64_t seed);

/// A training step of a chain of stages, which differ: of stage i `inner_i` reads x_i, `outer_i` reads that and gives
/// x_i+1, and `back_i` reads all three and the gradient of x_i+1 and gives that of x_i. Times from 1 to 10, sizes of x
/// from 1 to 5 and of inner from 1 to 20; whole numbers.
Instance generate_chain(int stages, std::uint64_t seed);

/// A training step of a U-shaped network: `levels` down and up, each with a skip over all that is below it, sizes
/// halving from level to level. Times are drawn around what bytes take; a convolution is as dear as eight passes over
/// them.
Instance generate_unet(int levels, std::uint64_t seed, std::int64_t bytes = std::int64_t{1} << 26);

}  // namespace sectionflow::planning
