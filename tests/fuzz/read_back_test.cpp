// What our writers write, our readers read back, bit for bit: random tensors of every dtype that a format has, of ranks
// 0 to 8, empty ones, NaN with payloads, infinities, zeros of both signs.

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <iterator>
#include <limits>
#include <ostream>
#include <string>
#include <vector>

#include "base/error.h"
#include "data/idx.h"
#include "data/npy.h"
#include "data/safetensors.h"
#include "data/tf_example.h"
#include "data/tfrecord.h"
#include "sources/datum.h"
#include "sources/hdf5.h"
#include "sources/lmdb.h"
#include "sources/npz.h"
#include "tests/fuzz/memory_file.h"
#include "tests/support/dice.h"
#include "tests/support/temporary_folder.h"
#include "train/event_file.h"
#include "train/event_writer.h"

namespace sectionflow::fuzz {
namespace {

using sectionflow::testing::Dice;
using Dtypes = std::vector<Dtype>;

const Dtypes kAllDtypes = {Dtype::f32, Dtype::f64,     Dtype::i32,  Dtype::i64,
                           Dtype::u8,  Dtype::boolean, Dtype::bf16, Dtype::i8};
const Dtypes kNumpyDtypes = {Dtype::f32, Dtype::f64, Dtype::i32, Dtype::i64, Dtype::u8, Dtype::boolean, Dtype::i8};
const Dtypes kHdf5Dtypes = {Dtype::f32, Dtype::f64, Dtype::i32, Dtype::i64, Dtype::u8, Dtype::i8};
const Dtypes kIdxDtypes = {Dtype::u8, Dtype::i32, Dtype::f32, Dtype::f64};

/// Tensors of one file, where a format holds several.
constexpr int kTensorsOfFile = 100;

Shape random_shape(Dice& dice, int least_rank) {
  const auto rank = dice.between(least_rank, 8);
  std::vector<std::int64_t> dims;
  std::int64_t num_elements = 1;
  for (std::int64_t axis = 0; axis < rank; ++axis) {
    const bool is_empty = dice.chance(3);
    dims.push_back(
        is_empty ? 0 : dice.between(1, std::max<std::int64_t>(1, std::min<std::int64_t>(7, 200 / num_elements))));
    num_elements *= std::max<std::int64_t>(dims.back(), 1);
  }
  return Shape(dims);
}

/// Bits of a number that is special to floats of `width` bits, of which the exponent has `exponent`.
std::uint64_t special_bits(Dice& dice, int width, int exponent) {
  const int mantissa = width - 1 - exponent;
  const std::uint64_t sign = static_cast<std::uint64_t>(dice.between(0, 1)) << (width - 1);
  const std::uint64_t all_ones = ((std::uint64_t{1} << exponent) - 1) << mantissa;
  const std::uint64_t payload =
      1 + static_cast<std::uint64_t>(dice.between(0, (std::int64_t{1} << (mantissa - 1)) - 2));
  switch (dice.between(0, 4)) {
    case 0:
      return sign;
    case 1:
      return sign | all_ones;
    case 2:
      return sign | all_ones | payload;  // NaN, signalling
    case 3:
      return sign | all_ones | std::uint64_t{1} << (mantissa - 1) | payload;
    default:
      return sign | payload;  // below the normal numbers
  }
}

HostTensor random_tensor(Dice& dice, Dtype dtype, Shape shape) {
  HostTensor tensor(dtype, std::move(shape));
  const std::size_t width = dtype_bytes(dtype);
  for (std::size_t at = 0; at < tensor.num_bytes(); at += width) {
    std::uint64_t bits = static_cast<std::uint64_t>(dice.between(0, std::numeric_limits<std::int64_t>::max() - 1)) * 3;
    if (dtype == Dtype::boolean) bits = bits & 1;
    if (is_floating(dtype) && dice.chance(30))
      bits = special_bits(dice, static_cast<int>(8 * width), dtype == Dtype::f64 ? 11 : 8);
    std::memcpy(tensor.bytes() + at, &bits, width);
  }
  return tensor;
}
HostTensor random_tensor(Dice& dice, const Dtypes& dtypes, int least_rank = 0) {
  const Dtype dtype = dtypes[static_cast<std::size_t>(dice.between(0, std::ssize(dtypes) - 1))];
  return random_tensor(dice, dtype, random_shape(dice, least_rank));
}

/// Up to `most` tensors, by names of which some want quoting.
Example random_tensors(Dice& dice, const Dtypes& dtypes, int most, int least_rank = 0) {
  Example tensors;
  for (int i = 0; i < most; ++i)
    tensors.emplace(text_of("tensor \"", i, dice.chance(20) ? "\\ \xc3\xb6" : "", "\""),
                    random_tensor(dice, dtypes, least_rank));
  return tensors;
}

void expect_same(const Example& read, const Example& written) {
  ASSERT_EQ(read.size(), written.size());
  for (const auto& [name, tensor] : written) {
    ASSERT_TRUE(read.contains(name)) << name;
    EXPECT_EQ(first_difference(read.at(name), tensor), "") << name << ": " << tensor.type().text();
  }
}

// Each writes and reads about `most` cases and tells how many they were. A case is a tensor, or a point of a curve.

int read_back_safetensors(Dice& dice, int most) {
  const TemporaryFolder folder;
  const Example written = random_tensors(dice, kAllDtypes, std::min(most, kTensorsOfFile));
  std::vector<NamedView> views;
  for (const auto& [name, tensor] : written) views.push_back({name, tensor.view()});
  write_safetensors(folder.path() / "file", views, {{"k", "v"}});
  Example read;
  for (NamedTensor& tensor : read_safetensors(folder.path() / "file").tensors)
    read.emplace(tensor.name, std::move(tensor.tensor));
  expect_same(read, written);
  return static_cast<int>(written.size());
}

int read_back_npy(Dice& dice, int) {
  const HostTensor written = random_tensor(dice, kNumpyDtypes);
  EXPECT_EQ(first_difference(parse_npy(npy_bytes(written), ""), written), "") << written.type().text();
  if (!dice.chance(1)) return 1;
  const TemporaryFolder folder;
  write_npy(folder.path() / "file.npy", written);
  EXPECT_EQ(first_difference(read_npy(folder.path() / "file.npy"), written), "") << written.type().text();
  return 1;
}

int read_back_npz(Dice& dice, int most) {
  const TemporaryFolder folder;
  const Example written = random_tensors(dice, kNumpyDtypes, std::min(most, kTensorsOfFile));
  write_npz(folder.path() / "file.npz", written, dice.chance(50));
  expect_same(read_npz(folder.path() / "file.npz"), written);
  return static_cast<int>(written.size());
}

int read_back_tfrecord(Dice& dice, int most) {
  std::vector<Example> written;
  std::string bytes;
  const Compression compressions[] = {Compression::none, Compression::gzip, Compression::zlib};
  RecordWriter writer([&](const char* more, std::size_t count) { bytes.append(more, count); },
                      compressions[dice.between(0, 2)]);
  int num_tensors = 0;
  for (; num_tensors < std::min(most, kTensorsOfFile); num_tensors += static_cast<int>(written.back().size())) {
    written.push_back(random_tensors(dice, kAllDtypes, 4));
    writer.write(serialize_tf_example(written.back()));
  }
  writer.finish();
  RecordReader reader = RecordReader::of_bytes(bytes, "records");
  for (const Example& example : written) {
    const auto record = reader.next();
    if (!record) {
      ADD_FAILURE() << "a record is missing";
      return num_tensors;
    }
    expect_same(parse_tf_example(*record, schema_of(example), ""), example);
  }
  EXPECT_FALSE(reader.next().has_value());
  return num_tensors;
}

int read_back_hdf5(Dice& dice, int most) {
  const TemporaryFolder folder;
  Example written;
  Hdf5Writer writer(folder.path() / "file.h5");
  for (int i = 0; i < std::min(most, kTensorsOfFile); ++i) {
    const std::string name = "tensor " + std::to_string(i);
    const HostTensor& tensor = written.emplace(name, random_tensor(dice, kHdf5Dtypes, 1)).first->second;
    writer.append(name, tensor);
  }
  writer.finish();
  Example read;
  for (const auto& [name, tensor] : written) read.emplace(name, read_hdf5(folder.path() / "file.h5", name));
  expect_same(read, written);
  return static_cast<int>(written.size());
}

/// A picture as Datum has them, and its label.
Example random_picture(Dice& dice) {
  const Shape shape({dice.between(1, 6), dice.between(1, 6), dice.between(1, 4)});
  Example example;
  example.emplace("image", random_tensor(dice, dice.chance(50) ? Dtype::u8 : Dtype::f32, shape));
  example.emplace("label", random_tensor(dice, Dtype::i32, Shape{}));
  return example;
}

class Pictures : public IndexedSource {
 public:
  explicit Pictures(const std::vector<Example>& pictures) : pictures_(pictures) {}
  std::string name() const override { return "pictures"; }
  std::int64_t size() const override { return std::ssize(pictures_); }
  Example at(std::int64_t index) const override {
    Example copy;
    for (const auto& [name, tensor] : pictures_[static_cast<std::size_t>(index)]) copy.emplace(name, tensor.clone());
    return copy;
  }

 private:
  const std::vector<Example>& pictures_;
};

int read_back_lmdb(Dice& dice, int most) {
  const TemporaryFolder folder;
  std::vector<Example> written;
  for (int i = 0; i < std::min(most, 200); ++i) written.push_back(random_picture(dice));
  const LmdbOptions options{.blue_first = dice.chance(50)};
  write_lmdb(folder.path() / "database", Pictures(written), options);
  const auto stream = lmdb_source(folder.path() / "database", options)->open();
  for (const Example& picture : written) {
    const auto read = stream->next();
    if (!read) {
      ADD_FAILURE() << "a record is missing";
      break;
    }
    expect_same(*read, picture);
  }
  EXPECT_FALSE(stream->next().has_value());
  return static_cast<int>(written.size());
}

/// An IDX file, which nothing of ours writes: its type, its dimensions and its elements, the highest byte first.
std::string idx_bytes(const HostTensor& tensor) {
  const char types[] = {0x08, 0x0c, 0x0d, 0x0e};
  const auto type = std::find(kIdxDtypes.begin(), kIdxDtypes.end(), tensor.dtype()) - kIdxDtypes.begin();
  std::string bytes{'\0', '\0', types[type], static_cast<char>(tensor.shape().rank())};
  for (int axis = 0; axis < tensor.shape().rank(); ++axis) {
    for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(tensor.shape()[axis] >> shift);
  }
  const std::size_t width = dtype_bytes(tensor.dtype());
  const auto* elements = reinterpret_cast<const char*>(tensor.bytes());
  for (std::size_t at = 0; at < tensor.num_bytes(); at += width)
    std::reverse_copy(elements + at, elements + at + width, std::back_inserter(bytes));
  return bytes;
}

int read_back_idx(Dice& dice, int) {
  const HostTensor written = random_tensor(dice, kIdxDtypes, 1);
  const MemoryFile file(idx_bytes(written));
  EXPECT_EQ(first_difference(read_idx(file.path()), written), "") << written.type().text();
  return 1;
}

int read_back_events(Dice& dice, int most) {
  const TemporaryFolder folder;
  EventWriter writer(folder.path().string());
  struct Point {
    std::string tag;
    float value;
    std::int64_t step;
  };
  std::vector<Point> written;
  for (int i = 0; i < std::min(most, 1000); ++i) {
    // Quiet: a float that becomes a double is.
    const auto bits = static_cast<std::uint32_t>(
        dice.chance(50) ? special_bits(dice, 32, 8) : static_cast<std::uint64_t>(dice.between(0, 0xffffffff)));
    const bool is_nan = (bits & 0x7fffffff) > 0x7f800000;
    written.push_back(
        {text_of("group/tag ", dice.between(0, 5)), std::bit_cast<float>(is_nan ? bits | 0x400000 : bits),
         dice.between(std::numeric_limits<std::int64_t>::min() / 2, std::numeric_limits<std::int64_t>::max() / 2)});
    writer.scalar(written.back().tag, written.back().value, written.back().step);
  }
  std::size_t place = 0;
  for (const LoggedEvent& event : read_events(writer.path())) {
    for (const LoggedScalar& scalar : event.scalars) {
      if (place == written.size()) {
        ADD_FAILURE() << "more points than were written";
        break;
      }
      const Point& point = written[place++];
      EXPECT_EQ(scalar.tag, point.tag);
      EXPECT_EQ(event.step, point.step);
      EXPECT_EQ(std::bit_cast<std::uint32_t>(scalar.value), std::bit_cast<std::uint32_t>(point.value));
    }
  }
  EXPECT_EQ(place, written.size());
  return static_cast<int>(written.size());
}

struct Format {
  const char* name;
  int (*read_back)(Dice& dice, int most);
};
const Format kFormats[] = {
    {"safetensors", read_back_safetensors},
    {"npy", read_back_npy},
    {"npz", read_back_npz},
    {"tfrecord", read_back_tfrecord},
    {"hdf5", read_back_hdf5},
    {"lmdb", read_back_lmdb},
    {"idx", read_back_idx},
    {"events", read_back_events},
};

struct Cases {
  Format format;
  int num_cases;
};
void PrintTo(const Cases& cases, std::ostream* out) {
  *out << cases.num_cases << " by " << cases.format.name;
}
class WhatIsWritten : public ::testing::TestWithParam<Cases> {};

TEST_P(WhatIsWritten, IsReadBackBitForBit) {
  const auto& [format, num_cases] = GetParam();
  int done = 0;
  for (std::uint64_t seed = 1; done < num_cases; ++seed) {
    SCOPED_TRACE(text_of(format.name, ", seed ", seed));
    Dice dice(seed);
    try {
      done += format.read_back(dice, num_cases - done);
    } catch (const std::exception& error) {
      ADD_FAILURE() << error.what();
    }
    if (HasFailure()) break;
  }
}

std::vector<Cases> cases(int num_cases) {
  std::vector<Cases> all;
  for (const Format& format : kFormats) all.push_back({format, num_cases});
  return all;
}
std::string name_of(const ::testing::TestParamInfo<Cases>& info) {
  return info.param.format.name;
}
INSTANTIATE_TEST_SUITE_P(Some, WhatIsWritten, ::testing::ValuesIn(cases(2000)), name_of);
INSTANTIATE_TEST_SUITE_P(Many, WhatIsWritten, ::testing::ValuesIn(cases(100000)), name_of);

}  // namespace
}  // namespace sectionflow::fuzz
