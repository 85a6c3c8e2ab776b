"""Dead letters that come back: read, counted, decoded, edited, replayed. What `connect dlq` and the console show.

`letter`, `selection`, `marks`, `planning`, `archive` and `views` are pure; `topic`, `replay` and `through` do what they
say. Imported by `rest` and the CLI; imports `records`, `pipeline`, `kafka`, `plugins`, `config`, `api`.
"""

from kconnect.admin.dead_letters.chain import SourceChain, is_source, letter_documents
from kconnect.admin.dead_letters.document import Documents
from kconnect.admin.dead_letters.letter import DeadLetter, dead_letter
from kconnect.admin.dead_letters.marks import Marks
from kconnect.admin.dead_letters.planning import Outcome, ReplayRules, Tally, isolation_level
from kconnect.admin.dead_letters.replay import MarkWriter, Preparation, Prepared, replay, tally
from kconnect.admin.dead_letters.selection import OffsetRange, Selection, Summary, selected, summary
from kconnect.admin.dead_letters.through import replay_through, sink_settings
from kconnect.admin.dead_letters.topic import (
    DeadLetterTopic,
    KafkaAccess,
    dead_letter_settings,
    letters_worker,
    refuse_two_clusters,
)
from kconnect.admin.dead_letters.views import letter_view, prepared_view, summary_view, tally_view

__all__ = [
    "DeadLetter",
    "DeadLetterTopic",
    "Documents",
    "KafkaAccess",
    "MarkWriter",
    "Marks",
    "OffsetRange",
    "Outcome",
    "Preparation",
    "Prepared",
    "ReplayRules",
    "Selection",
    "SourceChain",
    "Summary",
    "Tally",
    "dead_letter",
    "dead_letter_settings",
    "is_source",
    "isolation_level",
    "letter_documents",
    "letter_view",
    "letters_worker",
    "prepared_view",
    "refuse_two_clusters",
    "replay",
    "replay_through",
    "selected",
    "sink_settings",
    "summary",
    "summary_view",
    "tally",
    "tally_view",
]
