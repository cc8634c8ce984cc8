#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/export.h"
#include "data/dataset_options.h"

namespace SF_API sectionflow {

/// What normalize does: y = (x / divisor - mean) / deviation, in f32 and in this order, by the channel of the last
/// axis.
struct NormalizeOptions {
  std::string tensor = "image";
  float divisor = 255;                ///< 255 brings the levels of u8 to [0, 1]
  std::vector<float> mean = {};       ///< one for all channels, or one each; empty: not subtracted
  std::vector<float> deviation = {};  ///< likewise; empty: not divided by
};

/// What random_crop does: the part of an image [H,W,C] that is cut out.
struct CropOptions {
  std::string tensor = "image";
  std::int64_t height = 0;
  std::int64_t width = 0;
  std::int64_t padding = 0;  ///< rows and columns of zeros around the image before it is cut
};

/// What random_flip does.
struct FlipOptions {
  std::string tensor = "image";
  float probability = 0.5F;
};

/// The size that resize gives.
struct ResizeOptions {
  std::string tensor = "image";
  std::int64_t height = 0;
  std::int64_t width = 0;
};

/// Maps for Dataset::map. Each names itself and its options in texts and positions. Those that draw follow the seed of
/// the map. Throws: ArgumentError for options outside their range when they are made, and for a tensor that an example
/// does not have when they are called; ShapeError for tensors of another form than they say.
namespace maps {

/// The tensor as another dtype. Numbers beyond the range of a whole dtype become its ends, fractions are cut off, NaN
/// becomes 0; anything but 0 is true.
MapFunction cast(std::string tensor, Dtype dtype);

/// u8 or f32 [...,C] becomes f32 of the same shape.
MapFunction normalize(NormalizeOptions options = {});

/// i32, i64 or u8 [...] becomes f32 [...,classes], 1 at the class and 0 elsewhere. The call throws a DataError for a
/// class outside [0, classes), which on_error may leave out.
MapFunction one_hot(std::string tensor, std::int64_t classes);

/// A part of an image [H,W,C] of any dtype, at a random place: [height,width,C]. Draws words 0 and 1.
MapFunction random_crop(CropOptions options);

/// An image [H,W,C] of any dtype, its columns from right to left with the given probability. Draws word 0.
MapFunction random_flip(FlipOptions options = {});

/// An image [H,W,C], u8 or f32, of another size, by linear interpolation between the centres of pixels, without
/// smoothing before; u8 is rounded to nearest. What stands beyond the outermost centres is theirs.
MapFunction resize(ResizeOptions options);

/// These tensors and no others.
MapFunction select(std::vector<std::string> tensors);

/// Tensors by other names: {{"old", "new"}}. The call throws an ArgumentError for a new name that is taken.
MapFunction rename(std::map<std::string, std::string> names);

}  // namespace maps
}  // namespace sectionflow
