#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/split_mix.h"
#include "schedule/placement.h"

namespace sectionflow {

/// Lowers a placement by ejection. The blocks above a limit look for places below it, the largest area first. One that
/// finds none takes the place whose blocks weigh least, and these look for places next. A block weighs what its area
/// is, and more the more often it found no place, so that no two blocks take each other's place for ever.
///
/// Source: the weights and the pool are those of the ejection search of Nagata and Bräysy 2009, "A powerful route
/// minimization heuristic for the vehicle routing problem with time windows".
class Ejection {
 public:
  /// Keeps a reference: the problem must outlive it.
  explicit Ejection(const PlacementProblem& problem);

  /// A placement with a peak of at most `limit`, changed from one of the same problem. No fixed block may end above the
  /// limit. Nothing if `most_moves` moves of a block find none, or work() comes above `most_work` before they do.
  std::optional<BlockOffsets> lower(const BlockOffsets& from, std::int64_t limit, std::int64_t most_moves,
                                    std::int64_t most_work);

  /// How much has been done so far, in looks at a block: the same on every machine.
  std::int64_t work() const { return work_; }

 private:
  struct Placed {
    std::int64_t offset, end;
    int first, last;
    int block;
  };
  /// What is lost with a place: the blocks that lie there. Fixed ones cannot be.
  struct Loss {
    int fixed = 0;
    std::int64_t weight = 0;

    Loss& operator+=(const Loss& other) {
      fixed += other.fixed;
      weight += other.weight;
      return *this;
    }
    Loss& operator-=(const Loss& other) {
      fixed -= other.fixed;
      weight -= other.weight;
      return *this;
    }
  };
  struct End {
    std::int64_t end;
    Loss loss;
  };

  void start(const BlockOffsets& from, std::int64_t limit);
  int take_largest();
  void collect_around(int block);
  std::optional<std::int64_t> lowest_free(int block, std::int64_t limit) const;
  std::optional<std::int64_t> cheapest(int block, std::int64_t limit);
  void list_places(std::int64_t size, std::int64_t limit);
  void eject(int block, std::int64_t offset);
  void insert(int block, std::int64_t offset);
  BlockOffsets settled(std::int64_t most_work);
  Loss loss_of(const Placed& placed) const;

  const PlacementProblem& problem_;
  std::vector<std::int64_t> area_weight_;  // [blocks]
  std::vector<std::int64_t> failures_;     // [blocks], how often it found no place
  std::vector<int> pool_;                  // blocks without a place
  std::vector<Placed> placed_;             // by offset, fixed ones with block kFixed
  std::vector<Placed> around_;             // those of placed_ that live beside the block in hand, by offset
  std::vector<End> ends_;                  // of around_, by end
  std::vector<std::int64_t> places_;       // offsets at which the block in hand touches one of around_
  std::vector<std::int64_t> cheapest_;     // those of places_ that weigh least
  SplitMix random_{0};
  std::int64_t work_ = 0;
};

}  // namespace sectionflow
