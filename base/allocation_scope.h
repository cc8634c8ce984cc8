#pragma once

namespace sectionflow {

/// What the calling thread is doing, for tools that watch allocations: SectionFlow promises that its own code allocates
/// nothing between the first and the last step of a run. Libraries that are called by a kernel are exempt.
struct AllocationScope {
  int in_step = 0;     ///< > 0 while a step of a schedule is executed
  int in_library = 0;  ///< > 0 inside a call of a library that may allocate
};
inline thread_local AllocationScope allocation_scope;

/// Marks the executing of steps on this thread.
class StepScope {
 public:
  StepScope() { ++allocation_scope.in_step; }
  ~StepScope() { --allocation_scope.in_step; }
  StepScope(const StepScope&) = delete;
  StepScope& operator=(const StepScope&) = delete;
};

/// Marks a call into a library on this thread.
class LibraryScope {
 public:
  LibraryScope() { ++allocation_scope.in_library; }
  ~LibraryScope() { --allocation_scope.in_library; }
  LibraryScope(const LibraryScope&) = delete;
  LibraryScope& operator=(const LibraryScope&) = delete;
};

}  // namespace sectionflow
