#pragma once

#include <string>

namespace sectionflow {

/// Opens a shared object of ours that a program loads on demand: `file` is "libsectionflow_cuda.so", say. It is looked
/// for where the environment variable `variable` says, and nowhere else, if that is set; otherwise beside the program
/// or library that this code is in, and then on the loader's path, which in programs of the build folder has the folder
/// where it was built. Its symbols are nobody else's. nullptr: there is none that can be loaded; `tried` gets a line
/// for each place, with the reason.
void* open_shared_object(const char* file, const char* variable, std::string& tried);

}  // namespace sectionflow
