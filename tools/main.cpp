// What one asks of a model and its files from a shell. docs/command_line.md shows how.

#include "tools/command.h"

int main(int argc, char** argv) {
  using namespace sectionflow;
  CLI::App program("Plans, compares and trains models that do not fit the device, and looks into their files.",
                   "sectionflow");
  program.set_version_flag("--version", "sectionflow " SF_VERSION);
  RunCommand run;
  add_plan_command(program, run);
  add_compare_command(program, run);
  add_train_command(program, run);
  add_scale_command(program, run);
  add_inspect_command(program, run);
  add_convert_command(program, run);
  add_freeze_command(program, run);
  add_predict_command(program, run);
  return run_commands(program, run, argc, argv);
}
