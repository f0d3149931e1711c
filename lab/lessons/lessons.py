"""All lessons by number; docs/lessons has their texts and skeletons."""

from mrclab.lab.lessons.base import Lesson

LESSONS = {
    lesson.number: lesson
    for lesson in (
        Lesson(1, "The fabric and its uSIDs", "fabric.grade", "answers.yaml"),
        Lesson(2, "The uN shift in P4", "shift.grade", "shift.p4"),
        Lesson(3, "A P4Runtime controller of your own", "p4runtime.grade", "controller.py"),
        Lesson(4, "Spraying against ECMP collisions", "variants.spraying", "spray.yaml"),
        Lesson(5, "A lost link, RTT by RTT", "happened.lost_link"),
        Lesson(6, "A full queue: trimming and incast", "variants.full_queue", "incast.yaml"),
        Lesson(7, "Gray failure and Clustermapper", "happened.gray_failure"),
        Lesson(8, "A scenario of your own as a pytest", "pytests.grade", "test_my_lab.py"),
        Lesson(9, "ECN as a path signal", "variants.path_signal", "ecn.yaml"),
    )
}
