//! A guest for tests: functions of every type, that knows nothing of its host.

#[allow(missing_docs, reason = "it is generated")]
mod bindings {
    wit_bindgen::generate!({
        inline: r#"
            package plain:types@1.2.0;

            interface shapes {
                record point { x: s32, y: s32, label: option<string> }
                variant figure { nothing, circle(f64), polygon(list<point>) }
                enum color { red, green, blue }
                flags marks { bold, italic, wide }
                record everything {
                    truth: bool, tiny: u8, small: s8, short: u16, shorter: s16, middle: u32, signed: s32, large: u64,
                    larger: s64, single: f32, double: f64, letter: char, text: string, bytes: list<u8>,
                    lines: list<string>, pair: tuple<u8, string>, figure: figure, color: color, marks: marks,
                    maybe: option<point>, perhaps: option<option<bool>>, outcome: result<point, string>,
                    bare: result,
                }
                echo: func(it: everything) -> everything;
                area: func(of: figure) -> result<f64, string>;
                check: func(fine: bool) -> result;
                corners: func(of: figure) -> result<list<point>, point>;
            }

            world plain {
                export shapes;
                export other: interface {
                    area: func(side: u32) -> u64;
                }
                export greet: func(name: string) -> string;
                export plain-nested: func(it: option<option<u8>>) -> option<option<u8>>;
                export fill: func(bytes: u32) -> list<u8>;
                export crash: func();
                export spin: func();
                export calls: func() -> u32;
            }
        "#,
        pub_export_macro: true,
    });
}

use std::sync::atomic::{AtomicU32, Ordering};

use bindings::exports::{
    other,
    plain::types::shapes::{self, Everything, Figure, Point},
};

struct Plain;

bindings::export!(Plain with_types_in bindings);

static CALLS: AtomicU32 = AtomicU32::new(0);

impl bindings::Guest for Plain {
    fn greet(name: String) -> String {
        format!("Hello, {name}!")
    }

    fn plain_nested(it: Option<Option<u8>>) -> Option<Option<u8>> {
        it
    }

    fn fill(bytes: u32) -> Vec<u8> {
        vec![7; bytes as usize]
    }

    fn crash() {
        panic!("as asked for")
    }

    fn spin() {
        loop {
            std::hint::spin_loop();
        }
    }

    fn calls() -> u32 {
        CALLS.fetch_add(1, Ordering::Relaxed) + 1
    }
}

impl shapes::Guest for Plain {
    fn echo(it: Everything) -> Everything {
        it
    }

    fn area(of: Figure) -> Result<f64, String> {
        match of {
            Figure::Nothing => Ok(0.0),
            Figure::Circle(radius) if radius < 0.0 => Err(format!("a radius of {radius} is less than nothing")),
            Figure::Circle(radius) => Ok(3.0 * radius * radius),
            Figure::Polygon(points) => Err(format!("{} corners are too many", points.len())),
        }
    }

    fn check(fine: bool) -> Result<(), ()> {
        if fine { Ok(()) } else { Err(()) }
    }

    fn corners(of: Figure) -> Result<Vec<Point>, Point> {
        match of {
            Figure::Polygon(points) => Ok(points),
            Figure::Nothing | Figure::Circle(_) => Err(Point { x: 0, y: 0, label: Some("it has none".into()) }),
        }
    }
}

impl other::Guest for Plain {
    fn area(side: u32) -> u64 {
        u64::from(side) * u64::from(side)
    }
}
