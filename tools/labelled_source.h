#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/named_paths.h"
#include "data/dataset.h"
#include "data/source.h"
#include "sources/class_names.h"

namespace sectionflow {

/// Pictures with classes, by number: {"image": u8 [H,W,C] or a file's bytes u8 [n], "label": i32 []}.
struct LabelledPart {
  std::string name{};  ///< "train", "validation", "test", or "all" of a data set in one part
  std::shared_ptr<const IndexedSource> source{};
  ClassNames classes{};  ///< where the data set tells them
};

/// What one asks for by KIND:PATH.
struct DataArgument {
  std::string kind{};
  std::filesystem::path path{};
};

/// "cifar10:/data/cifar-10-batches-bin". A kind alone has an empty path. Throws: ArgumentError, which `what` begins,
/// for a kind that is none of `kinds`, with the nearest.
DataArgument data_argument(const std::string& text, const std::vector<std::string>& kinds, const std::string& what);

/// What of its path belongs to data that are read, or written, there: of pictures, and of databases of parts, all that
/// is below it, of other folders the files in it. Of an empty path of mnist it is where labelled_parts reads that.
std::vector<NamedPath> places_of_data(const std::string& option, const DataArgument& data);

/// 0.1 of "10%". Throws: ArgumentError for anything else than a share above 0% and below 100%.
double share_named(const std::string& text);

/// The part in two, "train" and "validation", as Dataset::split chooses them. Throws: ArgumentError for fewer than two
/// examples.
std::vector<LabelledPart> split_part(const LabelledPart& part, double share, std::uint64_t seed);

/// A part without what cannot be read of it.
struct ReadablePart {
  LabelledPart part;
  std::int64_t skipped = 0;
  std::string last_skipped{};  ///< why the last was left out
};
/// Reads all of a part. Throws: DataError where nothing is left, and for what is no damage of the data (SF-E408,
/// SF-E411).
ReadablePart readable_part(const LabelledPart& part);

/// A folder with a folder of pictures for each class, and the part of the data that it is.
struct PictureFolder {
  std::string name;  ///< "train", "validation", "test", or "all" of a data set in one part
  std::filesystem::path path;
};
/// That itself, or its folders train, validation (or val) and test, where it has train and another of them.
std::vector<PictureFolder> picture_parts(const std::filesystem::path& path);
/// Whether a folder has files of pictures in it, and not in folders below it.
bool has_pictures(const std::filesystem::path& folder);
/// The folders in one that have pictures, by name.
std::vector<std::string> picture_folders_in(const std::filesystem::path& folder);

/// The kinds that labelled_parts reads: mnist, cifar10, cifar100, images.
const std::vector<std::string>& labelled_kinds();
/// The parts of a data set, that to train on first; of images those of the folders train, validation (or val) and test,
/// where it has train and another of them; a warning names folders of pictures beside these. `channels` of pictures
/// that are decoded; 0: files stay as they are, and each is checked to be a whole picture. An empty path of mnist is
/// where Debian keeps Fashion-MNIST. Throws: DataError naming what is missing or damaged; ArgumentError without a path.
std::vector<LabelledPart> labelled_parts(const DataArgument& data, int channels);

}  // namespace sectionflow
