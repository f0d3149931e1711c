"""All lessons by number; docs/lessons has their texts and skeletons."""

from mrclab.lab.lessons.base import Lesson

LESSONS = {
    lesson.number: lesson
    for lesson in (
        Lesson(1, "The fabric and its uSIDs", "fabric.grade", "answers.yaml", 20, ()),
        Lesson(2, "The uN shift in P4", "p4.shift.grade", "shift.p4", 40, (1,)),
        Lesson(3, "A P4Runtime controller of your own", "p4.p4runtime.grade", "controller.py", 40, (1, 2)),
        Lesson(4, "Spraying against ECMP collisions", "variants.spraying", "spray.yaml", 30, (1,)),
        Lesson(5, "A lost link, RTT by RTT", "happened.lost_link", "", 30, (1,)),
        Lesson(6, "A full queue: trimming and incast", "variants.full_queue", "incast.yaml", 30, (1,)),
        Lesson(7, "Gray failure and Clustermapper", "happened.gray_failure", "", 30, (1, 5)),
        Lesson(8, "A scenario of your own as a pytest", "pytests.grade", "test_my_lab.py", 40, (5,)),
        Lesson(9, "ECN as a path signal", "variants.path_signal", "ecn.yaml", 30, (1, 4)),
    )
}
