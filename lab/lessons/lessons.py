"""All lessons by number; docs/lessons has their texts, skeletons and solutions."""

from mrclab.lab.lessons import fabric, happened
from mrclab.lab.lessons.base import Lesson

LESSONS = {
    lesson.number: lesson
    for lesson in (
        Lesson(1, "The fabric and its uSIDs", fabric.grade, "answers.yaml"),
        Lesson(5, "A lost link, RTT by RTT", happened.lost_link),
        Lesson(7, "Gray failure and Clustermapper", happened.gray_failure),
    )
}
