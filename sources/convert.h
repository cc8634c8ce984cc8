#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/export.h"
#include "data/source.h"
#include "data/tfrecord_source.h"
#include "sources/class_names.h"

namespace SF_API sectionflow {

/// Writes pictures with classes, those of CIFAR, image folders or any source of {"image": u8 [H,W,C], or a JPEG or PNG
/// file as u8 [n]; "label": a number}, as TFRecord files of tf.train.Example with the features that TensorFlow's users
/// give them: "image/encoded" (the file, or the picture's bytes), "image/format" ("jpeg", "png", "raw"),
/// "image/class/label", and of pictures "image/height", "image/width", "image/channels". An image folder is converted
/// without loss by {.decode = false}. Where `classes` has names, each example gets that of its label too, as
/// "image/class/text". Returns the files. Throws: as TfrecordWriter does; DataError for another example, for a label
/// without a name where there are names, and when the disk refuses. write_lmdb does the same for Caffe's databases,
/// whose records have no place for names (write_class_names).
std::vector<std::filesystem::path> write_image_tfrecords(const std::filesystem::path& folder, const std::string& prefix,
                                                         const IndexedSource& source,
                                                         TfrecordWriterOptions options = {},
                                                         const ClassNames& classes = {});

/// What reads the files back: {"image/encoded": u8 [n], "image/class/label": i64 []}.
FeatureSchema image_tfrecord_schema();

}  // namespace sectionflow
