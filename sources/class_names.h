#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "base/export.h"

namespace SF_API sectionflow {

/// The file of a data set's folder in which classes have their names, a line each, as TensorFlow's converters write it:
/// "0:cat". All behind the colon is the name, white space too.
inline constexpr const char* kClassNamesFile = "labels.txt";

/// Names of classes by their labels.
using ClassNames = std::map<std::int64_t, std::string>;

/// Those of an image folder, whose labels count from 0 on.
ClassNames class_names_of(const std::vector<std::string>& classes);

/// Writes kClassNamesFile into a folder, which is made where it is not there; the file appears whole or not at all.
/// Throws: ArgumentError for a name with a line break in it; DataError.
void write_class_names(const std::filesystem::path& folder, const ClassNames& names);
/// What kClassNamesFile of a folder tells; empty where there is none. Throws: DataError naming the line that is no
/// label, colon and name, or has the label of an earlier one.
ClassNames read_class_names(const std::filesystem::path& folder);

/// What the records themselves tell, which write_image_tfrecords and TensorFlow's converters give "image/class/label"
/// and "image/class/text"; empty where they tell no names. Reads all of them. Throws: DataError for a label that has
/// two names, and like tfrecord_source.
ClassNames class_names_of_records(const std::vector<std::filesystem::path>& files);

}  // namespace sectionflow
