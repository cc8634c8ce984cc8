#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/engine.h"

namespace sectionflow::testing_support {

using StepTest = std::function<bool(const Step&)>;

/// The first step, from `from` on, that satisfies `test`; -1 when there is none.
StepIndex find_step(const Schedule& schedule, const StepTest& test, StepIndex from = 0);

/// A test for compute steps of an op; in a pass of one kind where that is given.
StepTest computes(const Graph& graph, const std::string& op);
StepTest computes(const Graph& graph, const Schedule& schedule, const std::string& op, Pass::Kind pass);

/// Puts a copy of the step `index` right behind it; lives and the half are moved along. Its outputs stay the same
/// buffers.
void repeat_step(Schedule& schedule, StepIndex index);
/// Takes the step out; lives are moved along.
void drop_step(Schedule& schedule, StepIndex index);

/// The program that Session::run would compile, under a key of its own, so that its parts can be exchanged before it is
/// executed by Session::execute.
Executable& whole_graph_program(Session& session, const std::vector<Value>& fetches, const Feeds& feeds,
                                const RunOptions& options = {});

/// A kernel that does something of its own around another.
class WrappedKernel final : public Kernel {
 public:
  using Hook = std::function<void(const KernelArguments&)>;
  WrappedKernel(std::unique_ptr<Kernel> kernel, Hook before, Hook after)
      : kernel_(std::move(kernel)), before_(std::move(before)), after_(std::move(after)) {}

  std::string implementation() const override { return kernel_->implementation(); }
  std::size_t workspace_bytes() const override { return kernel_->workspace_bytes(); }
  std::vector<InPlace> in_place() const override { return kernel_->in_place(); }
  void launch(const KernelArguments& arguments) override {
    if (before_) before_(arguments);
    kernel_->launch(arguments);
    if (after_) after_(arguments);
  }

 private:
  std::unique_ptr<Kernel> kernel_;
  Hook before_, after_;
};
/// Wraps the kernel of a compute step; the program must not have been executed.
void wrap_kernel(Executable& program, StepIndex step, WrappedKernel::Hook before, WrappedKernel::Hook after = {});

}  // namespace sectionflow::testing_support
