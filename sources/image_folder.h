#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/export.h"
#include "data/source.h"
#include "sources/image.h"

namespace SF_API sectionflow {

/// What an image folder's examples hold.
struct ImageFolderOptions {
  /// Pictures u8 [H, W, channels], each of its own size; otherwise the files as they are, u8 [n], for decode_image in a
  /// map, or to be converted without loss.
  bool decode = true;
  /// Of files as they are: whether each is a whole picture, which takes about as long as decoding a JPEG at an eighth
  /// of its size, and a PNG.
  bool check = false;
  ImageOptions image{};
  std::size_t max_file_bytes = 256_MiB;  ///< a larger file is an error of its example
};

/// Pictures in files, with their classes.
struct ImageFolder {
  std::shared_ptr<const IndexedSource> source;  ///< {"image": u8, "label": i32 []}
  std::vector<std::string> classes;             ///< what the labels stand for; of a list: empty
  std::vector<std::string> files;               ///< of each example, below the folder
};

/// One folder a class, as in `photos/cat/12.jpg`: classes are the folders by name, examples the files in them whose
/// names end in .jpg, .jpeg or .png, by class and name. Names that begin with a dot are passed over, and so, with a
/// warning, are pictures of other kinds and folders step-N that are checkpoints of a training. Files are read where an
/// example is asked for.
/// Throws: DataError for a folder that cannot be read, has no folders, or no such file; at() for a file that cannot be
/// read or decoded, naming it.
ImageFolder image_folder(const std::filesystem::path& folder, ImageFolderOptions options = {});

/// The files of a list, in its order: on each line a path below `folder`, white space, and the label, as Caffe's
/// convert_imageset takes it. Throws: DataError naming the line, for one without a label or with a negative one, and
/// for a path that is absolute or leads out of the folder by `..`.
ImageFolder image_list(const std::filesystem::path& list, const std::filesystem::path& folder,
                       ImageFolderOptions options = {});

}  // namespace sectionflow
